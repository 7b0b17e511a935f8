//! Every help text.

use crate::support::Directory;

fn help(arguments: &[&str]) -> String {
    Directory::new().succeeds(arguments).out
}

#[test]
fn of_the_program() {
    insta::assert_snapshot!(help(&["--help"]), @r"
    A laboratory for flash storage: measure a device, with a methodology that makes the figures mean
    something

    Usage: flashlab <COMMAND>

    Commands:
      bench      Characterise a device with uFLIP; without TARGET, the disk under the current directory
      run        Run a plan of your own
      plan       Show the plans that come with flashlab, or check one of yours
      infer      Find out the hidden parameters of a device, each with evidence and confidence
      devices    List the block devices, and what flashlab would refuse to write to, and why
      sim        The simulated devices
      serve      A simulated device as a live disk
      reproduce  A table or figure of a paper beside what flashlab gets on the zoo's devices
      report     Rebuild the report of a run, or compare runs
      help       Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version
    ");
}

#[test]
fn of_infer() {
    insta::assert_snapshot!(help(&["infer", "--help"]), @r"
    Find out the hidden parameters of a device, each with evidence and confidence

    Usage: flashlab infer [OPTIONS] [TARGET]

    Arguments:
      [TARGET]  A block device, a regular file, sim:NAME[@STATE] or sim:./profile.toml[@STATE]; a
                scratch file if not given; or the folder of a run, which is shown again

    Options:
          --directory <DIR>         Where the scratch file goes; the current directory if not given
          --size <SIZE>             Size of the scratch file (1GiB if not given), or of a simulated
                                    device
          --keep-file               Keep the scratch file
          --write                   Write to the target, too; simulated devices are written to without
                                    it
          --read-only               Only read, a simulated device too
          --write-budget <SIZE>     Write so much at most; twice the capacity if not given, and never
                                    more than that
          --wear-out <ROUNDS>       Wear the device out: infer it, then so many rounds of --full-writes
                                    and of inferring it again
          --full-writes <N>         How often a round of --wear-out writes the whole device from end to
                                    end [default: 1000]
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --only <PARAMETER,...>    Only these parameters, and those that have to be known for them
          --time-limit <TIME>       The longest that the reading probes may take together, and each
                                    group of writing ones, as 90s or 2h; 60s (to 600s if it is slow) and
                                    24h if not given
          --seed <SEED>             The seed of everything random [default: 1]
      -o, --output <DIR>            The run's folder; flashlab-runs/TIME-TARGET if not given
          --resume <RUN>            Go on with an interrupted run as it was begun
          --advise                  Print what to do with the device, with the reason and the command:
                                    partitions, file systems, sizes
          --json                    Print an object from parameter name to its finding; with --advise,
                                    the advice instead
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
              Where the scratch file goes when there is no TARGET; the current directory if not given

          --size <SIZE>
              Size of the scratch file (1GiB if not given), or the part of TARGET that is used (all of
              it)

          --keep-file
              Keep the scratch file

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

          --repetitions <N>
              How often each run is repeated
              
              [default: 3]

          --seed <SEED>
              The seed of everything random
              
              [default: 1]

      -o, --output <DIR>
              The run's folder; flashlab-runs/TIME-TARGET if not given

          --json
              Print the findings as one JSON document

          --quick
              Some minutes: thinned values, short runs (the default without TARGET)

          --full
              An hour or more: all values of uFLIP's Table 1, runs as long as the device's phases need

          --only <NAME,...>
              Only these micro-benchmarks

          --state <STATE>
              The state that the device is brought to first

              Possible values:
              - random:     Random IOs of random size over the whole target
              - sequential: The whole target, written from end to end
              - none:       As it is
              
              [default: random]

          --resume <RUN>
              Go on with an interrupted run, whatever verb began it, as it was begun

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
          --directory <DIR>         Where the scratch file goes when there is no TARGET; the current
                                    directory if not given
          --size <SIZE>             Size of the scratch file (1GiB if not given), or the part of TARGET
                                    that is used (all of it)
          --keep-file               Keep the scratch file
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --engine <ENGINE>         How IOs are issued; io_uring where a plan has a queue depth, one at
                                    a time otherwise [possible values: sync, io-uring]
          --buffered                Go through the page cache: measures memory, and says so
          --repetitions <N>         How often each run is repeated [default: 3]
          --seed <SEED>             The seed of everything random [default: 1]
      -o, --output <DIR>            The run's folder; flashlab-runs/TIME-TARGET if not given
          --json                    Print the findings as one JSON document
          --quick                   Take the plan's quick_values instead of all its values
          --state <STATE>           The state that the device is brought to first [default: none]
                                    [possible values: random, sequential, none]
      -h, --help                    Print help (see more with '--help')
    ");
}

#[test]
fn of_plan() {
    insta::assert_snapshot!(help(&["plan", "-h"]), @r"
    Show the plans that come with flashlab, or check one of yours

    Usage: flashlab plan <COMMAND>

    Commands:
      list   The plans that come with flashlab
      show   A plan's file
      check  Whether a file is a plan, and what it would do
      help   Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["plan", "list", "-h"]), @r"
    The plans that come with flashlab

    Usage: flashlab plan list [OPTIONS]

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["plan", "show", "-h"]), @r"
    A plan's file

    Usage: flashlab plan show [OPTIONS] <NAME>

    Arguments:
      <NAME>  Its name

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["plan", "check", "-h"]), @r"
    Whether a file is a plan, and what it would do

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
      -h, --help  Print help
    ");
}

#[test]
fn of_sim() {
    insta::assert_snapshot!(help(&["sim", "-h"]), @r"
    The simulated devices

    Usage: flashlab sim <COMMAND>

    Commands:
      list          The zoo
      show          A device's profile, with its source and its fit
      precondition  Bring a device into a state at speed and save it, to be used as sim:NAME@STATE
      run           Replay a trace, or run a plan, in virtual time; a trace also on a real device
      help          Print this message or the help of the given subcommand(s)

    Options:
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["sim", "list", "-h"]), @r"
    The zoo

    Usage: flashlab sim list [OPTIONS]

    Options:
          --json  Print one JSON document
      -h, --help  Print help
    ");
    insta::assert_snapshot!(help(&["sim", "precondition", "-h"]), @r"
    Bring a device into a state at speed and save it, to be used as sim:NAME@STATE

    Usage: flashlab sim precondition [OPTIONS] --out <FILE> <NAME>

    Arguments:
      <NAME>  Its name, or a profile's file

    Options:
          --state <STATE>  The state: random writes of random size, or sequential ones [default: random]
                           [possible values: random, sequential]
          --times <N>      How many times the capacity is written [default: 1]
          --out <FILE>     Where the state goes
          --seed <SEED>    The seed of everything random [default: 1]
          --json           Print one JSON document
      -h, --help           Print help
    ");
    insta::assert_snapshot!(help(&["sim", "run", "-h"]), @r"
    Replay a trace, or run a plan, in virtual time; a trace also on a real device

    Usage: flashlab sim run [OPTIONS] <TARGET>

    Arguments:
      <TARGET>  NAME[@STATE] or ./profile.toml[@STATE], with or without sim:; with --live a block device
                or a file

    Options:
          --trace <FILE>            The trace: of fio, blkparse, MSR Cambridge or MQSim, gzip or not; or
                                    the samples of a run, a folder or a file
          --plan <PLAN>             A plan's file, or the name of one that comes with flashlab
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
          --size <SIZE>             The capacity of the simulated device, instead of its profile's; or
                                    the part of a real one that is used
          --record <DIR>            Write each IO as a sample into this new folder
          --live                    TARGET is a real device, or a served one, and the replay takes its
                                    time
          --destroy-data-on <PATH>  Consent to destroying all data on this block device, which must be
                                    TARGET
          --overwrite-file          Consent to overwriting TARGET, a regular file
          --seed <SEED>             The seed of everything random in a plan [default: 1]
          --json                    Print one JSON document
      -h, --help                    Print help (see more with '--help')
    ");
    insta::assert_snapshot!(help(&["sim", "show", "-h"]), @r"
    A device's profile, with its source and its fit

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
    Rebuild the report of a run, or compare runs

    Usage: flashlab report [OPTIONS] <RUN>...

    Arguments:
      <RUN>...  The folder of a run; several to compare them with the first

    Options:
      -o, --output <FILE>  Where the page goes; report.html in the run's folder, or comparison.html, if
                           not given
          --json           Print one JSON document
      -h, --help           Print help
    ");
}

#[test]
fn of_reproduce() {
    insta::assert_snapshot!(help(&["reproduce", "-h"]), @r"
    A table or figure of a paper beside what flashlab gets on the zoo's devices

    Usage: flashlab reproduce [OPTIONS] [NAME]...

    Arguments:
      [NAME]...  Which ones; without a name they are listed

    Options:
          --all             All of them
          --pictures <DIR>  Draw what was measured, with what the paper says of it, as SVG files in this
                            folder
          --seed <SEED>     The seed of the IOs; what is random inside the devices follows from their
                            profiles [default: 1]
          --json            Print one JSON document
      -h, --help            Print help
    ");
}
