//! `flashlab em`: external-memory algorithms, as a tool for files and as experiments on any device.

mod graph;
mod graph_input;
mod machine;
mod model_costs;
mod options;
mod predict;
mod recorder;
mod rehearsal;
mod run;
mod show;
mod sort_file;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Sort large files; run external-memory algorithms on any device, and predict their time
#[derive(Args)]
pub struct Em {
    #[command(subcommand)]
    action: EmAction,
}

#[derive(Subcommand)]
enum EmAction {
    /// Sort the records of a binary file into a new file
    Sort(sort_file::SortFile),
    /// Run an algorithm on generated input, verify its result, and compare its time with the predictions
    Run(Box<run::RunExperiment>),
    /// What each cost model expects of an algorithm on a device, without running it
    Predict(Box<predict::Predict>),
    /// Write a graph file: generated, or from a list of edges
    Graph(graph::WriteGraph),
}

impl Em {
    /// Does what the action says.
    pub fn run(self) -> Result<()> {
        flashlab_em::work_on_this_thread(options::cores());
        match self.action {
            EmAction::Sort(sort) => sort.run(),
            EmAction::Run(run) => run.run(),
            EmAction::Predict(predict) => predict.run(),
            EmAction::Graph(graph) => graph.run(),
        }
    }
}
