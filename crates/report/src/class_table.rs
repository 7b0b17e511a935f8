//! The table of response times by class, for a terminal.

use flashlab_analysis::{ClassRow, ClassTable, Locality};
use flashlab_base::Bytes;

use crate::units::{digits, grouped, time};

const CLASS: usize = 25;
const COLUMN: usize = 9;
const MIB: f64 = (1 << 20) as f64;

/// One line for each class, after a line with the names of the columns. Lines are 110 columns wide.
pub fn class_table(table: &ClassTable) -> String {
    let names =
        ["IOs", "IOPS", "MiB/s", "mean", "p50", "p95", "p99", "p99.9", "max", "queue"].map(str::to_owned);
    let mut text = line("", &names);
    for row in &table.rows {
        let response = &row.response;
        let times =
            [response.p50_ns, row.response_ns_p95, response.p99_ns, response.p999_ns, response.max_ns];
        let [p50, p95, p99, p999, max] = times.map(|nanos| time(nanos as f64));
        let figures = [
            grouped(response.count),
            digits(row.ios_per_s),
            digits(row.bytes_per_s / MIB),
            time(response.mean_ns),
            p50,
            p95,
            p99,
            p999,
            max,
            digits(row.queue_mean),
        ];
        text += &line(&name(row), &figures);
    }
    text
}

fn line(name: &str, figures: &[String]) -> String {
    let figures: String = figures.iter().map(|figure| format!(" {figure:>COLUMN$}")).collect();
    format!("{name:<CLASS$}{figures}\n")
}

/// For example `write`, or `  random, to 4 KiB`.
fn name(row: &ClassRow) -> String {
    let Some(locality) = row.locality else { return row.operation.to_string() };
    let locality = match locality {
        Locality::Sequential => "sequential",
        Locality::Random => "random",
    };
    let size = match (row.up_to_bytes, row.larger_than_bytes) {
        (Some(most), _) => format!("to {}", Bytes(most)),
        (None, Some(least)) => format!("over {}", Bytes(least)),
        (None, None) => String::new(),
    };
    format!("  {locality}, {size}")
}

#[cfg(test)]
mod tests {
    use flashlab_analysis::{Classes, Done};
    use flashlab_base::{Nanos, Operation};

    use super::*;

    #[test]
    fn classes_stand_below_their_operation() {
        let mut classes = Classes::default();
        for n in 1..=2000_u64 {
            let operation = if n % 4 == 0 { Operation::Write } else { Operation::Read };
            let locality = if n % 3 == 0 { Locality::Sequential } else { Locality::Random };
            let (waited, response) = (Nanos(n), Nanos(n * 1000));
            classes.add(&Done { operation, locality, size: Bytes(4096 << (n % 2 * 9)), waited, response });
        }
        classes.add(&Done {
            operation: Operation::Flush,
            locality: Locality::Random,
            size: Bytes::ZERO,
            waited: Nanos::ZERO,
            response: Nanos::from_millis(3),
        });
        insta::assert_snapshot!(class_table(&classes.table(Nanos::from_secs(2))), @r"
                                        IOs      IOPS     MiB/s      mean       p50       p95       p99     p99.9       max     queue
        read                          1 500       750      1001   1.00 ms    999 us   1.90 ms   1.98 ms   2.00 ms   2.00 ms      0.75
          sequential, to 4 KiB          167      83.5      0.33   1.00 ms   1.00 ms   1.90 ms   1.99 ms   2.00 ms   2.00 ms     0.084
          sequential, over 1 MiB        333       166       333    999 us    999 us   1.90 ms   1.98 ms   2.00 ms   2.00 ms      0.17
          random, to 4 KiB              333       166      0.65    999 us    998 us   1.90 ms   1.98 ms   1.99 ms   1.99 ms      0.17
          random, over 1 MiB            667       334       667   1.00 ms   1.00 ms   1.90 ms   1.98 ms   2.00 ms   2.00 ms      0.33
        write                           500       250      0.98   1.00 ms   1.00 ms   1.90 ms   1.98 ms   2.00 ms   2.00 ms      0.25
          sequential, to 4 KiB          166      83.0      0.32   1.00 ms    996 us   1.90 ms   1.98 ms   1.99 ms   1.99 ms     0.083
          random, to 4 KiB              334       167      0.65   1.00 ms   1.00 ms   1.90 ms   1.98 ms   2.00 ms   2.00 ms      0.17
        flush                             1      0.50      0.00   3.00 ms   3.00 ms   3.00 ms   3.00 ms   3.00 ms   3.00 ms    0.0015
        ");
    }
}
