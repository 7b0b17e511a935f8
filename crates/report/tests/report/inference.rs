//! The report of an inference: every parameter is in its group, doubtful values are marked, and the report
//! says what would settle them.

use flashlab_analysis::inference::{Axis, Finding, Inference, Parameter, Picture, Style};
use flashlab_base::{Bytes, Identity, Seed};
use flashlab_report::{InferenceRun, inference_html};

/// A device of which some parameters are known, some doubtful and some unknown.
fn inference() -> Inference {
    let identity = Identity {
        target: "/dev/disk/by-id/nvme-A_disk_with_a_rather_long_name_and_serial_0123456789".to_owned(),
        kind: "block device".to_owned(),
        model: Some("A disk with a rather long name".to_owned()),
        logical_block: Some(Bytes(512)),
        ..Identity::default()
    };
    let target = identity.target.clone();
    let picture = Picture::new(
        "response time over the distance",
        Axis::logarithmic("distance", "bytes"),
        Axis::linear("response time", "ns"),
    )
    .draw(
        "reads",
        Style::Line,
        (12..28).map(|power| (f64::from(1 << power), 5e5 + f64::from(power % 3) * 9e4)).collect(),
    );
    let evidence = "Alternating 4 KiB reads between two offsets takes 0.84 ms when they are 240 MiB or more apart. \
                    Closer ones take 0.59 ms; with 95 % confidence the difference is 0.24 to 0.26 ms.";
    let finding = |(index, &parameter): (usize, &Parameter)| match index % 4 {
        0 => Finding::undetermined(parameter, "the write budget was used up"),
        1 => Finding::found(parameter, Bytes::mib(4), 0.7, evidence).with(picture.clone()),
        2 => Finding::not_identifiable(parameter, 0.95, "there is one die"),
        _ => Finding::found(parameter, Bytes::kib(64), 0.995, evidence).with(picture.clone()),
    };
    let findings = Parameter::ALL.iter().enumerate().map(finding).collect();
    Inference { findings, written: Bytes::gib(3), ..Inference::begun(&target, identity, Bytes::gib(2)) }
}

/// Its page.
pub fn page() -> String {
    let warnings =
        [("virtual_machine".to_owned(), "this is a virtual machine: the host may cache".to_owned())];
    let probes: Vec<String> = (0..9)
        .map(|n| format!("probes/{n}-a-probe-with-a-long-name-that-says-what-it-is-for.toml"))
        .collect();
    inference_html(&InferenceRun {
        inference: &inference(),
        started: "2026-01-02T03:04:05Z",
        flashlab: "0.1.0",
        seed: Seed(1),
        write_budget: Some(Bytes::gib(3)),
        warnings: &warnings,
        probes: &probes,
    })
}

#[test]
fn every_parameter_has_a_card_that_shows_its_confidence() {
    let page = page();
    let count = |class: &str| page.matches(&format!("<div class=\"card {class}\">")).count();
    let nth = |n: usize| Parameter::ALL.iter().enumerate().filter(|(index, _)| index % 4 == n).count();
    assert_eq!(count("doubtful"), nth(1));
    assert_eq!(count("reliable"), nth(3));
    assert_eq!(count("unknown"), nth(0) + nth(2));
    assert_eq!(page.matches("70.0 %, low confidence").count(), nth(1));
}

#[test]
fn withheld_advice_names_the_measurement_that_would_bring_it() {
    let page = page();
    let open = page.split("No advice yet").nth(1).expect("some advice is withheld");
    assert!(open.contains("flashlab infer /dev/disk/by-id/nvme-A_disk"), "{open}");
    assert!(open.contains("--only erase_block_size --write<"), "{open}");
}

#[test]
fn each_group_shows_one_picture_and_folds_the_others() {
    let page = page();
    let sections: Vec<&str> = page.split("<section id=\"").skip(1).collect();
    for id in ["geometry", "translation", "buffers", "costs", "time"] {
        let section =
            sections.iter().find(|section| section.starts_with(id)).expect("every group has a section");
        let unfolded = section.split("<details").next().unwrap();
        assert_eq!(unfolded.matches("<figure").count(), 1, "{id}");
    }
}
