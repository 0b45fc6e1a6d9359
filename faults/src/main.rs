//! Tollward's nodes under load while their Redis is broken in every way.
//!
//! For each fault: two nodes that share a Redis of their own and one that keeps its counters in memory,
//! all three under the same load. Redis is broken and mended again; what every check was answered, and
//! when, is held against what the documentation promises. How long things take is measured, and decides
//! nothing; an answer that was lost, wrong or too generous makes the whole run fail.

mod args;
mod client;
mod faults;
mod judge;
mod load;
mod metrics;
mod node;
mod place;
mod table;
mod trial;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Parser;

use crate::args::Args;
use crate::faults::{FAULTS, Fault};
use crate::judge::Judgement;
use crate::table::Table;
use crate::trial::{HOT_CAPACITY, HOT_RATE, NODES, Trial};

const LEGEND: &str = "\
p99.9 and slowest are by the nodes' own histogram, from the facts to the decision, as bounds of its buckets; those of
the client are exact and have HTTP and this process in them. noticed: from the fault to the first answer without Redis,
of the slower node. recovered: from the end of the fault to the first 200 ms in which 95 % of answers are Redis's, of
the slower node. fell back: answers without Redis. trips: times that a node stopped asking Redis. logged: lines of the
node that logged more. admitted/bound: of the hot caller. spent/admitted: of the caller whose tokens never come back,
what Redis has counted and what was let through: more spent than admitted is charged twice.
Bars: nothing lost, wrong or over the bound; p99.9 ≤ 15 ms, none beyond 55 ms, noticed ≤ 100 ms, recovered ≤ 2 s.";

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if args.list {
        for fault in FAULTS {
            println!("{:<24}{}", fault.name, fault.about);
        }
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        args.tollward.is_file(),
        "no {}: `cargo build --release`, or --tollward PATH",
        args.tollward.display()
    );
    let faults = chosen(&args.names)?;
    println!(
        "{} checks a second over {NODES} nodes on Redis and one in memory, 2000 callers; deadline 5 ms; the hot \
         caller has {HOT_RATE}/s and {HOT_CAPACITY} at once; {} cores\n",
        args.rate,
        std::thread::available_parallelism().map_or(0, usize::from)
    );
    let (mut table, mut memory) = (Table::faults(), Table::memory());
    let mut fine = true;
    for fault in faults {
        let began = Instant::now();
        let mut trial = Trial::run(fault, &args.tollward, args.rate).await;
        if let Err(error) = &trial {
            println!("{}: {error:#}; once more", fault.name);
            trial = Trial::run(fault, &args.tollward, args.rate).await;
        }
        let trial = match trial {
            Ok(trial) => trial,
            Err(error) => {
                fine = false;
                println!("{}: {error:#}", fault.name);
                table.push_failure(fault.name);
                continue;
            }
        };
        let judgement = Judgement::new(fault, &trial);
        fine &= judgement.broken.is_empty();
        table.push_fault(fault.name, &judgement);
        memory.push_memory(fault.name, &judgement.memory);
        let secs = began.elapsed().as_secs();
        println!("{} ({secs} s): {}", fault.name, judgement.notes.join("; "));
        if args.logs {
            for (node, log) in trial.logs.iter().enumerate() {
                println!("-- node {node}\n{log}");
            }
        }
    }
    println!("\n{table}\n{memory}\n{LEGEND}");
    Ok(if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn chosen(names: &[String]) -> Result<Vec<&'static Fault>> {
    if names.is_empty() {
        return Ok(FAULTS.iter().collect());
    }
    let mut chosen = Vec::new();
    for name in names {
        match FAULTS.iter().find(|fault| fault.name == name) {
            Some(fault) => chosen.push(fault),
            None => bail!("there is no fault `{name}`: see --list"),
        }
    }
    Ok(chosen)
}
