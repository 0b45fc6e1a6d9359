//! Tollward beside its peers, in one run.
//!
//! Contenders take turns, slice by slice, so that whatever else this machine does hits all of them
//! alike; what is reported are medians over the turns, and their ratio. Nothing here passes or fails.

mod args;
mod bars;
mod bytes;
mod contender;
mod engine;
mod four;
mod gateway;
mod http;
mod keys;
mod load;
mod people;
mod policy;
mod process;
mod redis;
mod store;
mod table;
mod turns;

use clap::Parser;

use crate::args::{Args, Section};
use crate::bars::Bars;
use crate::table::Table;

#[global_allocator]
static ALLOCATOR: bytes::Counting = bytes::Counting;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let effort = args.effort();
    let mut table = Table::default();
    let mut bars = Bars::default();
    for section in args.sections() {
        eprintln!("{section:?} ...");
        match section {
            Section::Store => store::run(effort, &mut table, &mut bars),
            Section::Four => four::run(effort, &mut table, &mut bars),
            Section::Engine => engine::run(effort, &mut table)?,
            Section::People => people::run(effort, &mut table, &mut bars)?,
            Section::Bytes => bytes::run(&mut table, &mut bars),
            Section::Redis => redis::run(effort, &mut table, &mut bars)?,
            Section::Http => http::run(&args, effort, &mut table)?,
            Section::Gateway => gateway::run(&args, effort, &mut table, &mut bars)?,
        }
    }
    println!("{table}\n{bars}");
    Ok(())
}
