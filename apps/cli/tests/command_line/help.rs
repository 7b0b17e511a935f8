//! All help texts.

use crate::support::{Directory, program};

fn help(arguments: &[&str]) -> String {
    Directory::new().succeeds(arguments).out
}

#[test]
fn of_the_program() {
    insta::assert_snapshot!(help(&["--help"]), @r"
    A laboratory for flash storage: measures, explains, simulates and serves devices

    Usage: flashlab <COMMAND>

    Commands:
      bench        Characterise a device with uFLIP; without TARGET, the disk under the current
                   directory
      run          Run a plan of your own
      infer        Infer the hidden parameters of a device, each with evidence and confidence
      wear-out     Wear a device out: infer it, then write it fully many times and infer it again, for
                   some rounds
      resume       Resume an interrupted run of bench, run or infer as it was begun
      report       Show a run and rebuild its report
      view         Look at every IO of runs in a browser, until Ctrl-C
      compare      Compare runs of bench or run: ratios with confidence intervals at each quantile
      model        Fit equations to a device, predict with them, check them, derive settings of other
                   software
      plan         Show the plans that come with flashlab, or check one of yours
      devices      List the block devices, and what flashlab would refuse to write to, and why
      em           Sort large files; run external-memory algorithms on any device, and predict their
                   time
      sim          List and show the simulated devices, save their states, run traces and plans in
                   virtual time
      sweep        Run a plan on a simulated device with other values of its profile's keys, on all
                   cores
      replay       Replay a trace on a real device, in real time
      serve        Serve a simulated device as a live disk
      repair       Volumes that turn random writes into large sequential ones, durable and crash-safe
      live         Ask a running server what it did, arm faults, fail its power, end it
      reproduce    Print a table or figure of a paper next to what flashlab measures on the zoo's
                   devices
      completions  Print completions for a shell: source <(flashlab completions bash)
      manual       Write the manual pages into a new folder
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    ");
}

#[test]
fn of_infer() {
    insta::assert_snapshot!(help(&["infer", "--help"]), @r"
    Infer the hidden parameters of a device, each with evidence and confidence

    Usage: flashlab infer [OPTIONS] [TARGET]

    Arguments:
      [TARGET]  A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]; a
                scratch file if not given

    Options:
          --directory <DIR>         The directory of the scratch file; the current directory if not
                                    given
          --keep-file               Keep the scratch file
          --size <SIZE>             Size of the scratch file; 1GiB if not given
          --capacity <SIZE>         The capacity of a simulated device, instead of its profile's
          --write                   Write to the target, too; simulated devices are written to without
                                    it
          --replay <RUN>            Answer the probes from the samples of an earlier inference, with its
                                    settings, instead of a device
          --read-only               Only read, a simulated device too
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --write-budget <SIZE>     Write at most this much by an inference; twice the capacity if not
                                    given, and never more than that
          --only <PARAMETER,...>    Only these parameters, and those that have to be known for them
          --time-limit <TIME>       The time limit for all reading probes together, and for each probe
                                    that may write, such as 90s or 2h; 60s (to 600s if the device is
                                    slow) and 24h if not given
          --seed <SEED>             The seed of everything random [default: 1]
      -o, --output <DIR>            The folder for the results; flashlab-runs/TIME-TARGET if not given
          --advise                  Print advice, too: partitions, file systems, sizes, each with its
                                    reason and command; with --json, the advice alone; of an inference
                                    only
          --json                    Print one JSON document
          --csv                     Print the table as CSV
          --expect <EXPECTATION>    What must hold, as 'RW.p99 < 500us'; more than one may be given.
                                    Exit code 4: not met, 5: cannot be told
          --strict                  Exit with 4 where an expectation cannot be told, too
          --junit <FILE>            Write the answers to this file as JUnit XML
          --github-summary          Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)
      -h, --help                    Print help
    ");
}

#[test]
fn of_bench() {
    insta::assert_snapshot!(help(&["bench", "--help"]), @r"
    Characterise a device with uFLIP; without TARGET, the disk under the current directory

    Usage: flashlab bench [OPTIONS] [TARGET]

    Arguments:
      [TARGET]
              A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]

    Options:
          --directory <DIR>
              The directory of the scratch file; the current directory if not given

          --keep-file
              Keep the scratch file

          --size <SIZE>
              Size of the scratch file (1GiB if not given), or the part of TARGET that is used (all of
              it)

          --destroy-data-on <PATH>
              Consent to destroying all data on this block device, which must be TARGET

          --overwrite-file
              Consent to overwriting TARGET, a regular file

          --engine <ENGINE>
              How IOs are issued; io_uring where a plan has a queue depth, one at a time otherwise

              Possible values:
              - sync:     One pread or pwrite at a time, a thread for each process of a parallel pattern
              - io-uring: io_uring

          --buffered
              Go through the page cache: measures memory, and says so

          --seed <SEED>
              The seed of everything random
              
              [default: 1]

      -o, --output <DIR>
              The folder for the results; flashlab-runs/TIME-TARGET if not given

          --repetitions <N>
              How many times each experiment is measured
              
              [default: 3]

          --view
              Serve a page on which every IO can be looked at while it is measured; its address is
              printed, and it ends with the measurement

          --json
              Print one JSON document

          --csv
              Print the table as CSV

          --expect <EXPECTATION>
              What must hold, as 'RW.p99 < 500us'; more than one may be given. Exit code 4: not met, 5:
              cannot be told

          --strict
              Exit with 4 where an expectation cannot be told, too

          --junit <FILE>
              Write the answers to this file as JUnit XML

          --github-summary
              Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)

          --quick
              Some minutes: thinned values, short runs (the default without TARGET)

          --full
              An hour or more: all values of uFLIP's Table 1, runs as long as the device's phases need

          --only <NAME,...>
              Only these micro-benchmarks

          --state <STATE>
              The state that the device is brought to first; steady for a full run, random for a quick
              one if not given

              Possible values:
              - steady:     Written from end to end, then randomly until throughput, response time and
                write amplification are steady
              - random:     Random IOs of random size over the whole target, one capacity
              - sequential: The whole target, written from end to end
              - none:       As it is

          --until-steady
              As --state steady: write randomly until the device is steady, at most ten times its
              capacity

      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[test]
fn of_run() {
    insta::assert_snapshot!(help(&["run", "-h"]), @r"
    Run a plan of your own

    Usage: flashlab run [OPTIONS] <PLAN> [TARGET]

    Arguments:
      <PLAN>    A plan's file, or the name of one that comes with flashlab (see flashlab plan list)
      [TARGET]  A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]

    Options:
          --directory <DIR>         The directory of the scratch file; the current directory if not
                                    given
          --keep-file               Keep the scratch file
          --size <SIZE>             Size of the scratch file (1GiB if not given), or the part of TARGET
                                    that is used (all of it)
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --engine <ENGINE>         How IOs are issued; io_uring where a plan has a queue depth, one at
                                    a time otherwise [possible values: sync, io-uring]
          --buffered                Go through the page cache: measures memory, and says so
          --seed <SEED>             The seed of everything random [default: 1]
      -o, --output <DIR>            The folder for the results; flashlab-runs/TIME-TARGET if not given
          --repetitions <N>         How many times each experiment is measured [default: 3]
          --view                    Serve a page on which every IO can be looked at while it is
                                    measured; its address is printed, and it ends with the measurement
          --json                    Print one JSON document
          --csv                     Print the table as CSV
          --expect <EXPECTATION>    What must hold, as 'RW.p99 < 500us'; more than one may be given.
                                    Exit code 4: not met, 5: cannot be told
          --strict                  Exit with 4 where an expectation cannot be told, too
          --junit <FILE>            Write the answers to this file as JUnit XML
          --github-summary          Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)
          --quick                   Take the plan's quick_values instead of all its values
          --state <STATE>           The state that the device is brought to first [default: none]
                                    [possible values: steady, random, sequential, none]
      -h, --help                    Print help (see more with '--help')
    ");
}

#[test]
fn of_plan() {
    insta::assert_snapshot!(help(&["plan", "-h"]), @r"
    Show the plans that come with flashlab, or check one of yours

    Usage: flashlab plan <COMMAND>

    Commands:
      list   List the plans that come with flashlab
      show   Print a plan's file
      check  Check whether a file is a plan, and print its experiments
      help   Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["plan", "list", "-h"]), @r"
    List the plans that come with flashlab

    Usage: flashlab plan list [OPTIONS]

    Options:
          --json  Print one JSON document
          --csv   Print the table as CSV
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["plan", "show", "-h"]), @r"
    Print a plan's file

    Usage: flashlab plan show [OPTIONS] <NAME>

    Arguments:
      <NAME>  Its name

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["plan", "check", "-h"]), @r"
    Check whether a file is a plan, and print its experiments

    Usage: flashlab plan check [OPTIONS] <FILE>

    Arguments:
      <FILE>  The file

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    ");
}

#[test]
fn of_devices() {
    insta::assert_snapshot!(help(&["devices", "-h"]), @r"
    List the block devices, and what flashlab would refuse to write to, and why

    Usage: flashlab devices [OPTIONS]

    Options:
          --json  Print one JSON document
          --csv   Print the table as CSV
      -h, --help  Print help
    ");
}

#[test]
fn of_sim() {
    insta::assert_snapshot!(help(&["sim", "-h"]), @r"
    List and show the simulated devices, save their states, run traces and plans in virtual time

    Usage: flashlab sim <COMMAND>

    Commands:
      list          List the zoo
      show          Print a device's profile, with its source and its fit
      precondition  Bring a device into a state at speed and save it, to be used as sim:NAME@STATE
      run           Replay a trace, or run a plan, in virtual time
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["sim", "list", "-h"]), @r"
    List the zoo

    Usage: flashlab sim list [OPTIONS]

    Options:
          --json  Print one JSON document
          --csv   Print the table as CSV
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["sim", "precondition", "-h"]), @r"
    Bring a device into a state at speed and save it, to be used as sim:NAME@STATE

    Usage: flashlab sim precondition [OPTIONS] --output <FILE> <NAME>

    Arguments:
      <NAME>  Its name, or a profile's file

    Options:
          --state <STATE>  The state; steady if not given, sequential for a device with zones [possible
                           values: steady, random, sequential]
          --until-steady   As --state steady
          --times <N>      How many times the capacity is written, with --state random (1 if not given)
                           or sequential
      -o, --output <FILE>  The file that the state is written to
          --seed <SEED>    The seed of everything random [default: 1]
          --json           Print one JSON document
      -h, --help           Print help (see more with '--help')
    ");
    insta::assert_snapshot!(help(&["sim", "run", "-h"]), @r"
    Replay a trace, or run a plan, in virtual time

    Usage: flashlab sim run [OPTIONS] <TARGET>

    Arguments:
      <TARGET>  NAME[@STATE] or ./profile.toml[@STATE], with or without sim:

    Options:
          --trace <FILE>         The trace: of fio, blkparse, MSR Cambridge or MQSim, gzip or not; or
                                 the samples of a run, a folder or a file
          --plan <PLAN>          A plan's file, or the name of one that comes with flashlab
          --format <FORMAT>      The trace's format; recognised by its first line if not given [possible
                                 values: fio, blkparse, msr, mqsim, samples]
          --source <NAME>        Only the IOs of this source: a device, file or process, as the trace
                                 names it
          --speed <FACTOR>       How many times as fast the IOs arrive as they did [default: 1x]
          --as-fast-as-possible  Replay without regard to when IOs arrived: always --depth of them in
                                 flight
          --depth <N>            How many IOs are in flight as fast as possible, or at most in real
                                 time; 32, or what the device takes, if not given
          --fit <FIT>            What becomes of IOs behind the device's end, which are an error
                                 otherwise [possible values: wrap, scale]
          --capacity <SIZE>      The capacity of a simulated device, instead of its profile's
      -o, --output <DIR>         Record each IO as a sample into this new folder
          --seed <SEED>          The seed of everything random in a plan [default: 1]
          --json                 Print one JSON document
          --csv                  Print the table as CSV
      -h, --help                 Print help (see more with '--help')
    ");
    insta::assert_snapshot!(help(&["sim", "show", "-h"]), @r"
    Print a device's profile, with its source and its fit

    Usage: flashlab sim show [OPTIONS] <NAME>

    Arguments:
      <NAME>  Its name, or a profile's file

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    ");
}

#[test]
fn of_report() {
    insta::assert_snapshot!(help(&["report", "-h"]), @r"
    Show a run and rebuild its report

    Usage: flashlab report [OPTIONS] <RUN> [TWIN]

    Arguments:
      <RUN>   The folder of a run, whatever verb made it
      [TWIN]  The folder of its twin's run, or the twin's profile: say how far they are apart, as model
              twin-check does

    Options:
      -o, --output <FILE>         Where the page goes; report.html in the run's folder if not given,
                                  twin.html with TWIN
          --advise                Print advice, too: partitions, file systems, sizes, each with its
                                  reason and command; with --json, the advice alone; of an inference
                                  only
          --json                  Print one JSON document
          --csv                   Print the table as CSV
          --expect <EXPECTATION>  What must hold, as 'RW.p99 < 500us'; more than one may be given. Exit
                                  code 4: not met, 5: cannot be told
          --strict                Exit with 4 where an expectation cannot be told, too
          --junit <FILE>          Write the answers to this file as JUnit XML
          --github-summary        Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)
      -h, --help                  Print help
    ");
}

#[test]
fn of_compare() {
    insta::assert_snapshot!(help(&["compare", "-h"]), @r"
    Compare runs of bench or run: ratios with confidence intervals at each quantile

    Usage: flashlab compare [OPTIONS] <RUN> <OTHER>...

    Arguments:
      <RUN>       The folder of the run that the others are compared with
      <OTHER>...  The folders of the other runs

    Options:
      -o, --output <FILE>         Where the page goes [default: comparison.html]
          --json                  Print one JSON document
          --csv                   Print the table as CSV
          --expect <EXPECTATION>  What must hold, as 'RW.p99 < 500us'; more than one may be given. Exit
                                  code 4: not met, 5: cannot be told
          --strict                Exit with 4 where an expectation cannot be told, too
          --junit <FILE>          Write the answers to this file as JUnit XML
          --github-summary        Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)
      -h, --help                  Print help
    ");
}

#[test]
fn of_reproduce() {
    insta::assert_snapshot!(help(&["reproduce", "-h"]), @r"
    Print a table or figure of a paper next to what flashlab measures on the zoo's devices

    Usage: flashlab reproduce [OPTIONS] [NAME]...

    Arguments:
      [NAME]...  Which ones; without a name they are listed

    Options:
          --all             All tables and figures of papers
          --rows <FILE>     With ssd-iq: further rows of its drives, as CSV with the same columns
          --pictures <DIR>  Draw what was measured, and what the paper says, as SVG files in this folder
          --seed <SEED>     The seed of the IOs; what is random inside the devices follows from their
                            profiles [default: 1]
          --json            Print one JSON document
          --csv             Print the table as CSV
      -h, --help            Print help
    ");
}

#[test]
fn of_wear_out() {
    insta::assert_snapshot!(help(&["wear-out", "-h"]), @r"
    Wear a device out: infer it, then write it fully many times and infer it again, for some rounds

    Usage: flashlab wear-out [OPTIONS] --rounds <N> --output <DIR> <TARGET>

    Arguments:
      <TARGET>  A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]

    Options:
          --rounds <N>              How many rounds of full writes and an inference follow the first
                                    inference
          --full-writes <N>         How often a round writes the whole device from end to end [default:
                                    1000]
          --capacity <SIZE>         The capacity of a simulated device, instead of its profile's
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --write-budget <SIZE>     Write at most this much by an inference; twice the capacity if not
                                    given, and never more than that
          --only <PARAMETER,...>    Only these parameters, and those that have to be known for them
          --time-limit <TIME>       The time limit for all reading probes together, and for each probe
                                    that may write, such as 90s or 2h; 60s (to 600s if the device is
                                    slow) and 24h if not given
          --seed <SEED>             The seed of everything random [default: 1]
      -o, --output <DIR>            The folder of the rounds
          --json                    Print the rounds as one JSON document
      -h, --help                    Print help
    ");
}

#[test]
fn of_resume() {
    insta::assert_snapshot!(help(&["resume", "-h"]), @r"
    Resume an interrupted run of bench, run or infer as it was begun

    Usage: flashlab resume [OPTIONS] <RUN>

    Arguments:
      <RUN>  The run's folder

    Options:
          --keep-file               Keep the scratch file
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --advise                  Print advice, too: partitions, file systems, sizes, each with its
                                    reason and command; with --json, the advice alone; of an inference
                                    only
          --json                    Print one JSON document
          --csv                     Print the table as CSV
          --expect <EXPECTATION>    What must hold, as 'RW.p99 < 500us'; more than one may be given.
                                    Exit code 4: not met, 5: cannot be told
          --strict                  Exit with 4 where an expectation cannot be told, too
          --junit <FILE>            Write the answers to this file as JUnit XML
          --github-summary          Append the answers to GitHub's step summary ($GITHUB_STEP_SUMMARY)
      -h, --help                    Print help
    ");
}

#[test]
fn of_replay() {
    insta::assert_snapshot!(help(&["replay", "-h"]), @r"
    Replay a trace on a real device, in real time

    Usage: flashlab replay [OPTIONS] <TRACE> <TARGET>

    Arguments:
      <TRACE>   The trace: of fio, blkparse, MSR Cambridge or MQSim, gzip or not; or the samples of a
                run, a folder or a file
      <TARGET>  A block device or a regular file; a served disk is one of them

    Options:
          --format <FORMAT>         The trace's format; recognised by its first line if not given
                                    [possible values: fio, blkparse, msr, mqsim, samples]
          --source <NAME>           Only the IOs of this source: a device, file or process, as the trace
                                    names it
          --speed <FACTOR>          How many times as fast the IOs arrive as they did [default: 1x]
          --as-fast-as-possible     Replay without regard to when IOs arrived: always --depth of them in
                                    flight
          --depth <N>               How many IOs are in flight as fast as possible, or at most in real
                                    time; 32, or what the device takes, if not given
          --fit <FIT>               What becomes of IOs behind the device's end, which are an error
                                    otherwise [possible values: wrap, scale]
          --size <SIZE>             The part of TARGET that is used, from its start; all of it if not
                                    given
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
      -o, --output <DIR>            Record each IO as a sample into this new folder
          --json                    Print one JSON document
          --csv                     Print the table as CSV
      -h, --help                    Print help (see more with '--help')
    ");
}

#[test]
fn of_live() {
    insta::assert_snapshot!(help(&["live", "-h"]), @r"
    Ask a running server what it did, arm faults, fail its power, end it

    Usage: flashlab live <COMMAND>

    Commands:
      status        Print what the server did: rates, response times, errors, the flash
      fault         Arm faults
      clear-faults  Disarm all faults
      power-loss    Fail the power: what was not flushed is lost
      power-on      Bring the power back
      stop          End the server, as Ctrl-C does, and wait until it has ended
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
}

#[test]
fn of_live_status() {
    insta::assert_snapshot!(help(&["live", "status", "-h"]), @r"
    Print what the server did: rates, response times, errors, the flash

    Usage: flashlab live status [OPTIONS] <SOCKET>

    Arguments:
      <SOCKET>  The control socket of the server, which it prints when it is ready

    Options:
          --watch  Print it again each second, until the server ends
          --json   Print one JSON document
      -h, --help   Print help
    ");
}

#[test]
fn of_live_fault() {
    insta::assert_snapshot!(help(&["live", "fault", "-h"]), @r"
    Arm faults

    Usage: flashlab live fault <SOCKET> <FAULT>...

    Arguments:
      <SOCKET>    The control socket of the server, which it prints when it is ready
      <FAULT>...  KIND[,KEY=VALUE]..., as error,on=write,share=0.01 (see docs/serve.md)

    Options:
      -h, --help  Print help
    ");
}

#[test]
fn of_serve() {
    insta::assert_snapshot!(help(&["serve", "-h"]), @r"
    Serve a simulated device as a live disk

    Usage: flashlab serve [OPTIONS] <TARGET>

    Arguments:
      <TARGET>  sim:NAME[@STATE] or sim:./profile.toml[@STATE]

    Options:
          --capacity <SIZE>        The capacity of a simulated device, instead of its profile's
          --loop                   As a loop block device with direct IO
          --fuse <DIR>             As the file DIR/disk, through FUSE
          --ublk                   As a block device of the kernel's driver ublk
          --nbd <SOCKET>           To NBD clients at this Unix socket, through nbdkit
          --recover <N>            Take over the block device /dev/ublkbN, whose server was killed; give
                                   the same --backing again
          --backing <FILE>         Keep the data in this file, which is made if it does not exist, and
                                   the device's state next to it; in memory if not given
          --overwrite-file         Consent to writing to a backing file that flashlab did not make
          --no-data                Keep no data: reads return zeroes, and only the times are real
          --volatile-cache <SIZE>  The most that a power loss takes back of what was written and not
                                   flushed [default: 64MiB]
      -o, --output <DIR>           Record every read and write as a sample into this new folder
          --metrics <PORT>         Serve metrics for Prometheus on this port of this machine; 0 takes a
                                   free one
          --control <SOCKET>       Where the control socket is made, for flashlab live; in a temporary
                                   directory if not given
          --fault <FAULT>          What goes wrong from the start: KIND[,KEY=VALUE]..., as
                                   error,on=write,share=0.01 (see docs/serve.md); may be repeated
          --seed <SEED>            The seed of faults that bring none of their own [default: 1]
          --daemon                 Return when it is ready; the server goes on until flashlab live stop
                                   or a signal ends it
          --log <FILE>             The new file for the server's messages with --daemon; one in the
                                   temporary directory if not given
          --json                   Print one line of JSON when the disk is ready
      -h, --help                   Print help
    ");
}

#[test]
fn of_model_tune() {
    insta::assert_snapshot!(help(&["model", "tune", "--help"]), @r"
    Derive settings of other software from a model, each with its reason, interval, effect and undo line

    Usage: flashlab model tune [OPTIONS] --for <NAME> <RUN>

    Arguments:
      <RUN>  A run, the folder of flashlab model fit, or its model.json

    Options:
          --for <NAME>              For what: io-cost, scylla, postgresql, rocksdb, ceph, fio, sim
          --device <MAJOR:MINOR>    The number of the block device in the lines of io-cost, as 259:0
          --mountpoint <DIR>        Where the disk is mounted, for scylla
          --largest-request <SIZE>  The largest IO that the kernel passes on in one piece
                                    (max_sectors_kb), for rocksdb; the run's if not given
          --read-ahead <SIZE>       The kernel's read-ahead of the disk (read_ahead_kb), for postgresql;
                                    128 KiB if not given
          --cached <SHARE>          The share of a database's random reads that a cache answers, from 0
                                    to 1, for postgresql; 0.9 if not given, as in PostgreSQL's manual
          --published <FILE>        A published io_properties.yaml or set of instance types: says which
                                    of its figures repeat another one, for scylla
      -o, --output <FILE>           Write the settings to this file
          --json                    Print one JSON document
          --csv                     Print the table as CSV
      -h, --help                    Print help
    ");
}

/// Bash completes verbs, options and the values of options.
#[test]
fn completions() {
    let directory = Directory::new();
    let script = directory.write("completions", directory.succeeds(&["completions", "bash"]).out);
    let complete = |words: &str| {
        let command = format!(
            "source '{}' && COMP_WORDS=({words}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && \
             _flashlab flashlab \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\" && echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        program("bash", &["-c", &command]).unwrap()
    };
    assert_eq!(complete("flashlab ben"), "bench");
    assert_eq!(complete("flashlab bench --repe"), "--repetitions");
    assert_eq!(complete("flashlab sweep --state st"), "steady");
    for shell in ["fish", "zsh"] {
        let script = directory.succeeds(&["completions", shell]).out;
        assert!(script.contains("wear-out") && !script.contains("caretaker"), "{script}");
    }
}

#[test]
fn manual_pages() {
    let directory = Directory::new();
    directory.succeeds(&["manual", "--output", "man/man1"]);
    let page = |name: &str| std::fs::read_to_string(directory.path("man/man1").join(name)).unwrap();
    assert!(page("flashlab.1").contains("flashlab\\-bench(1)"), "the program's page leads to its verbs");
    assert!(page("flashlab-em-sort.1").contains("\\-\\-memory"));
    let names = std::fs::read_dir(directory.path("man/man1")).unwrap();
    let names: Vec<_> = names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.contains("caretaker")), "{names:?}");
    let again = directory.flashlab(&["manual", "--output", "man/man1"]);
    assert_eq!(again.code, Some(2), "{}", again.err);
}
