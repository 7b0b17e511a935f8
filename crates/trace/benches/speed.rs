//! Measures how many lines per second are parsed, for each format: `cargo bench -p flashlab-trace`.

use std::time::Instant;

use flashlab_trace::{Format, parse};

const LINES: u64 = 1_000_000;

fn main() {
    for format in Format::ALL {
        let text = text(format);
        let began = Instant::now();
        let trace = parse(&text[..], "speed", None, usize::MAX).expect("the lines are right");
        let took = began.elapsed().as_secs_f64();
        assert_eq!(trace.ios.len() as u64, LINES);
        let (lines, bytes) = (LINES as f64 / took / 1e6, text.len() as f64 / took / 1e6);
        println!("{:<9} {lines:5.1} million lines/s  {bytes:4.0} MB/s", format.name());
    }
}

fn text(format: Format) -> Vec<u8> {
    let mut text = String::new();
    if format == Format::Fio {
        text += "fio version 3 iolog\n0 /dev/sda add\n0 /dev/sda open\n";
    }
    for n in 0..LINES {
        let sector = n * 7919 % 500_000_000;
        let write = n % 3 == 0;
        text += &match format {
            Format::Fio => {
                let action = if write { "write" } else { "read" };
                format!("{} /dev/sda {action} {} 4096\n", n * 10, sector * 512)
            }
            Format::Blkparse => {
                let (seconds, nanos) = (n / 1_000_000, n % 1_000_000 * 1000);
                let letters = if write { "WS" } else { "R" };
                format!("  8,0    1 {n:8} {seconds:5}.{nanos:09}   697  Q {letters:>3} {sector} + 8 [fio]\n")
            }
            Format::Msr => {
                let kind = if write { "Write" } else { "Read" };
                format!("{},usr,{},{kind},{},4096,41286\n", 128_166_372_003_061_629 + n, n % 2, sector * 512)
            }
            Format::Mqsim => format!("{} {} {sector} 8 {}\n", n * 10_000, n % 7, u8::from(!write)),
        };
    }
    text.into_bytes()
}
