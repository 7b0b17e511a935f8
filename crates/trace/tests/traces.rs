//! Parses traces that other programs wrote, and checks the IOs. Wrong traces must give helpful errors.

use std::fmt::Write;

use flashlab_base::{Bytes, Operation};
use flashlab_trace::{Fit, Format, Trace, TraceError, parse};
use proptest::prelude::*;

fn read(text: &str) -> Result<Trace, TraceError> {
    parse(text.as_bytes(), "t", None, 1000)
}

#[test]
fn a_trace_with_more_ios_than_fit_is_refused() {
    let text = "0,disk,0,Read,0,512,1\n".repeat(11);
    let error = parse(text.as_bytes(), "t", Some(Format::Msr), 10).unwrap_err().to_string();
    assert!(error.starts_with("t:11: has more than 10 IOs"), "{error}");
    assert_eq!(parse(text.as_bytes(), "t", Some(Format::Msr), 11).unwrap().ios.len(), 11);
}

#[test]
fn each_device_of_blkparse_was_filtered_on_its_own() {
    let trace = read(
        "8,0 0 1 0.000000000 1 Q R 0 + 8 [a]\n8,0 0 2 0.000001000 1 D R 0 + 8 [a]\n8,16 0 3 0.000002000 1 D R 64 + 8 [a]\n",
    );
    assert_eq!(trace.unwrap().ios.len(), 2);
}

/// A line for each IO.
fn shown(trace: &Trace) -> String {
    let mut text = String::new();
    for io in &trace.ios {
        let source = &trace.sources[io.source as usize];
        let (offset, size) = (io.offset.0, io.size.0);
        writeln!(text, "{} {} {offset} + {size} {source} :{}", io.arrival.0, io.operation, io.line).unwrap();
    }
    text
}

fn refused(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn fio_version_3() {
    // As fio 3.33 wrote it with --write_iolog.
    let text = "fio version 3 iolog\n16 /tmp/f add\n114 /tmp/f open\n118 /tmp/f read 249856 4096\n\
                7592 /tmp/f read 3104768 4096\n17964 /tmp/f write 1970176 4096\n52793 /tmp/f sync 3825664 0\n\
                53161 /tmp/f trim 278528 4096\n100600 /tmp/f close\n";
    insta::assert_snapshot!(shown(&read(text).unwrap()), @r"
    0 read 249856 + 4096 /tmp/f :4
    7474000 read 3104768 + 4096 /tmp/f :5
    17846000 write 1970176 + 4096 /tmp/f :6
    52675000 flush 0 + 0 /tmp/f :7
    53043000 discard 278528 + 4096 /tmp/f :8
    ");
}

#[test]
fn fio_version_2_waits_between_its_ios() {
    let text = "fio version 2 iolog\na add\nb add\na open\na write 0 512\nb wait 250 0\nb read 4096 8192\n\
                b wait 1000 0\na datasync 0 0\na close\n";
    insta::assert_snapshot!(shown(&read(text).unwrap()), @r"
    0 write 0 + 512 a :5
    250000 read 4096 + 8192 b :7
    1250000 flush 0 + 0 a :9
    ");
}

/// As blkparse 1.2 printed it.
const BLKPARSE: &str = "  8,0    0        3     0.000000000   697  Q  WS 223490 + 8 [fio]
  8,0    0        4     0.000000500   697  G  WS 223490 + 8 [fio]
  8,0    0        5     0.000000900   697  P   N [fio]
  8,0    0        6     0.000001500   697  D  WS 223490 + 8 [fio]
  8,0    0        7     0.000090000   697  C  WS 223490 + 8 [0]
  8,0    0        8     0.000250000   697  Q   R 2048 + 256 [fio]
  8,0    0       18     0.000750000   697  Q FWS [fio]
  8,0    0       21     0.000751500   697  D FWS [fio]
  8,0    0       23     0.001000000   697  Q   D 8192 + 2048 [fio]
  8,0    0       26     0.001001500   697  D   D 8192 + 2048 [fio]
  8,0    0       28     0.001250000   697  Q FWFS 223498 + 8 [fio]
  8,0    0       38     0.001750000   697  D   R 36 (12 00 00 00 24 00 ..) [fio]
  8,0    0        0     0.001750010     0  m   N cfq699 insert
CPU0 (t):
 Reads Queued:           4,     1164KiB	 Writes Queued:           3,        8KiB
";

#[test]
fn blkparse() {
    insta::assert_snapshot!(shown(&read(BLKPARSE).unwrap()), @r"
    0 write 114426880 + 4096 8,0 :1
    250000 read 1048576 + 131072 8,0 :6
    750000 flush 0 + 0 8,0 :7
    1000000 discard 4194304 + 1048576 8,0 :9
    1250000 write 114430976 + 4096 8,0 :11
    ");
}

#[test]
fn blkparse_of_what_was_issued_only() {
    let issued: String =
        BLKPARSE.lines().filter(|line| !line.contains("  Q ")).map(|line| format!("{line}\n")).collect();
    insta::assert_snapshot!(shown(&read(&issued).unwrap()), @r"
    0 write 114426880 + 4096 8,0 :3
    750000 flush 0 + 0 8,0 :5
    1000000 discard 4194304 + 1048576 8,0 :6
    ");
}

#[test]
fn microsoft_research_cambridge() {
    let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
                128166372003061629,usr,0,Read,7014609920,24576,41286\r\n\
                128166372016382155,usr,1,Write,2517696512,4096,1963\r\n\
                128166372003061630,usr,0,Read,7014634496,8192,41286\r\n";
    insta::assert_snapshot!(shown(&read(text).unwrap()), @r"
    0 read 7014609920 + 24576 usr,0 :2
    100 read 7014634496 + 8192 usr,0 :4
    1332052600 write 2517696512 + 4096 usr,1 :3
    ");
}

#[test]
fn mqsim() {
    let text = "1000 4 264 16 0\n2500 13 930 32 1\n\n2600 4 280 16 0";
    let trace = read(text).unwrap();
    insta::assert_snapshot!(shown(&trace), @r"
    0 write 135168 + 8192 4 :1
    1500 read 476160 + 16384 13 :2
    1600 write 143360 + 8192 4 :4
    ");
    assert_eq!(trace.clone().of_source("5"), None);
    insta::assert_snapshot!(shown(&trace.of_source("13").unwrap()), @"0 read 476160 + 16384 13 :2");
}

#[test]
fn what_is_no_trace_is_said_with_its_line() {
    insta::assert_snapshot!(refused("\nhello, world\n"), @r"
    t:2: `hello, world` begins no known trace; known are:
      fio       `fio version 2 iolog` or `fio version 3 iolog`
      blkparse  MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS SECTOR + SECTORS [COMMAND]
      msr       TIMESTAMP,HOST,DISK,Read or Write,OFFSET,SIZE,RESPONSETIME
      mqsim     NANOSECONDS DEVICE SECTOR SECTORS TYPE, where TYPE is 0 (write) or 1 (read)
    ");
    insta::assert_snapshot!(refused("fio version 1 iolog\n"), @"t:1: expected `fio version 2 iolog` or `fio version 3 iolog`, found `fio version 1 iolog`");
    insta::assert_snapshot!(refused("fio version 3 iolog\n0 f add\n5 f wait 10 0\n"), @"t:3: expected an action of fio version 3: add, open, close, read, write, trim, sync or datasync, found `5 f wait 10 0`");
    insta::assert_snapshot!(refused("fio version 2 iolog\nf read 0 0\n"), @"t:2: expected an offset and a length above 0, in bytes, that end within 64 bits, found `f read 0 0`");
    insta::assert_snapshot!(refused("1 0 8 8 0\n2 0 36028797018963967 8 0\n"), @"t:2: expected NANOSECONDS DEVICE SECTOR SECTORS TYPE, where TYPE is 0 (write) or 1 (read), found `2 0 36028797018963967 8 0`");
    insta::assert_snapshot!(refused("8,0 0 1 0.5 6 Q R 12 - 8 [a]\n"), @"t:1: expected SECTOR + SECTORS after the RWBS, in sectors of 512 bytes that end within 64 bits, found `8,0 0 1 0.5 6 Q R 12 - 8 [a]`");
    insta::assert_snapshot!(refused("128166372003061629,usr,0,Trim,0,24576,41286"), @r"
    t:1: `128166372003061629,usr,0,Trim,0,24576,41286` begins no known trace; known are:
      fio       `fio version 2 iolog` or `fio version 3 iolog`
      blkparse  MAJOR,MINOR CPU SEQUENCE SECONDS.NANOSECONDS PID ACTION RWBS SECTOR + SECTORS [COMMAND]
      msr       TIMESTAMP,HOST,DISK,Read or Write,OFFSET,SIZE,RESPONSETIME
      mqsim     NANOSECONDS DEVICE SECTOR SECTORS TYPE, where TYPE is 0 (write) or 1 (read)
    ");
    insta::assert_snapshot!(refused(""), @"t: there is no read, write, flush or discard in it");
    insta::assert_snapshot!(refused("fio version 2 iolog\n"), @"t: there is no read, write, flush or discard in it");
    insta::assert_snapshot!(refused(&"x".repeat(1 << 17)), @"t:1: cannot be read: the line is longer than 64 KiB, as in no trace");
}

#[test]
fn a_trace_is_widened_to_blocks_and_brought_into_the_device() {
    let text = "0 0 1 1 1\n1 0 7 2 0\n2 0 96 16 1\n";
    let fitted = |fit| {
        let mut trace = read(text).unwrap();
        let fitted = trace.fit(Bytes::kib(40), Bytes::kib(4), fit).map_err(|misfit| misfit.to_string());
        fitted.map(|fitted| format!("{fitted:?}\n{}", shown(&trace)))
    };
    insta::assert_snapshot!(fitted(Fit::Exact).unwrap_err(), @"a read of 8KiB at offset 48KiB ends behind the device of 40KiB; the trace needs 56KiB");
    insta::assert_snapshot!(fitted(Fit::Wrap).unwrap(), @r"
    Fitted { widened: 2, moved: 1 }
    0 read 0 + 4096 0 :1
    1 write 0 + 8192 0 :2
    2 read 8192 + 8192 0 :3
    ");
    insta::assert_snapshot!(fitted(Fit::Scale).unwrap(), @r"
    Fitted { widened: 2, moved: 1 }
    0 read 0 + 4096 0 :1
    1 write 0 + 8192 0 :2
    2 read 32768 + 8192 0 :3
    ");
    let mut large = read("0 0 0 100 1").unwrap();
    let misfit = large.fit(Bytes::kib(40), Bytes::kib(4), Fit::Wrap).unwrap_err();
    insta::assert_snapshot!(misfit, @"a read of 52KiB is larger than the device of 40KiB");
}

/// Lines that are nearly right.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "fio version 2 iolog\n",
        "fio version 3 iolog\n",
        "8,0",
        "read",
        "write",
        "wait",
        "sync",
        "Q",
        "D",
        "FWS",
        "R",
        "+",
        "-",
        "[a]",
        "0",
        "8",
        "18446744073709551615",
        "36028797018963967",
        "0.000000001",
        "1.",
        ".5",
        ",",
        "usr",
        "Read",
        "CPU0",
        "\n",
        "\r\n",
        "1 0 8 8 0\n",
        "8,0 0 1 0.5 6 Q R 12 + 8\n",
        "128166372003061629,u,0,Read,0,5,6\n",
    ]);
    let separated = prop::collection::vec((words, prop::sample::select(vec![" ", ",", "\n", ""])), 0..60);
    separated.prop_map(|words| {
        words.iter().flat_map(|(word, gap)| [word.as_bytes(), gap.as_bytes()].concat()).collect()
    })
}

fn holds(bytes: &[u8]) {
    for format in Format::ALL.into_iter().map(Some).chain([None]) {
        let Ok(mut trace) = parse(bytes, "t", format, usize::MAX) else { continue };
        assert_eq!(trace.ios[0].arrival.0, 0);
        assert!(trace.ios.is_sorted_by_key(|io| io.arrival));
        assert!(trace.ios.iter().all(|io| (io.source as usize) < trace.sources.len()));
        for (block, fit) in [(512, Fit::Exact), (4096, Fit::Scale), (1 << 20, Fit::Wrap)] {
            let (capacity, block) = (Bytes::mib(100), Bytes(block));
            if trace.fit(capacity, block, fit).is_ok() {
                let transfers = trace.ios.iter().filter(|io| io.operation != Operation::Flush);
                for io in transfers {
                    assert!(
                        io.size >= block && io.size.is_multiple_of(block) && io.offset.is_multiple_of(block)
                    );
                    assert!(io.end() <= capacity, "{io:?}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        holds(&bytes);
    }

    #[test]
    fn what_is_nearly_a_trace_is_one_or_an_error(bytes in nearly()) {
        holds(&bytes);
    }
}
