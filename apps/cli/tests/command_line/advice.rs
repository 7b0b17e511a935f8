//! Runs the commands of `infer --advise` on a block device with the inferred capacity, and checks that they
//! work.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Directory, LoopDevice};

/// A device with a page map, and one that maps blocks.
const DEVICES: [&str; 2] = ["sim:iodrive", "sim:sdcard"];

#[test]
fn every_command_works_on_a_device_of_that_capacity() {
    for target in DEVICES {
        let directory = Directory::new();
        let infer = ["infer", target, "--size", "512MiB", "--advise", "--json", "--output", "run"];
        let advised: Value = serde_json::from_str(&directory.succeeds(&infer).out).unwrap();
        let given = advised["given"].as_array().unwrap();
        assert!(given.len() > 2, "{advised}");
        let image = directory.file("image", 512 << 20);
        let Some(device) = LoopDevice::over(&image, &[]) else { return };
        directory.write("content", vec![1; 4 << 20]);
        for advice in given {
            let command = advice["command"].as_str().unwrap();
            let words: Vec<String> = command
                .split(' ')
                .map(|word| word.replace("DEVICE", &device.0).replace("FILE", "content"))
                .collect();
            let words = match words[0].as_str() {
                // As long as it takes to see that it runs.
                "fio" => [words, vec!["--runtime=1".to_owned()]].concat(),
                _ => words,
            };
            if words[0] == "mount" {
                // Not every kernel has f2fs.
                continue;
            }
            let wiped = Command::new("wipefs").args(["--all", "--quiet", &device.0]).status();
            assert!(wiped.is_ok_and(|status| status.success()), "{command}");
            let run = |program: &str, arguments: &[String]| {
                Command::new(program)
                    .args(arguments)
                    .current_dir(directory.path(""))
                    .stdin(Stdio::null())
                    .output()
            };
            match run(&words[0], &words[1..]) {
                Ok(output) => {
                    let told = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{target}: {command}: {told}");
                }
                Err(error) => {
                    flashlab_skip::skip(
                        flashlab_skip::Need::Programs,
                        format_args!("no {}: {error}", words[0]),
                    );
                }
            }
        }
    }
}
