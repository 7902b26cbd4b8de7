//! The pass of a site over its table: contributions of all units, and the noise.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use undertone_api::dataset::Visibility;
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::run::analytics::sum_contributions;
use undertone_worker::site::clearance::Clearance;
use undertone_worker::site::gate;
use undertone_worker::site::policy::{DatasetRules, Policy, declare};
use undertone_worker::speech::progress::SilentProgress;
use undertone_worker::tables::add::{AddOptions, add};
use undertone_worker::tables::dataset::UnverifiedTable;
use undertone_worker::tables::source::SourceOptions;

use super::people;

/// Adds a table of so many rows, and returns the seconds without writing its source.
pub(super) fn write_table(table: &Path, rows: u64) -> Result<f64, Box<dyn Error>> {
    let source = table.with_extension("csv");
    let mut file = BufWriter::new(File::create(&source)?);
    writeln!(file, "person,age,sex,region,income,weight,smoker,visit")?;
    for number in 0..rows {
        writeln!(file, "{number},{}", people::format_row(&people::person(number)))?;
    }
    file.into_inner()?;
    let options = AddOptions {
        sources: SourceOptions::Files { paths: vec![source.clone()], format: None },
        schema: people::schema()?,
        zone: None,
        output: table.to_path_buf(),
        name: "people".to_owned(),
        replace: false,
        created: String::new(),
        fresh_key: [7; 32],
    };
    let started = Instant::now();
    add(&options, None, &SilentProgress)?;
    let seconds = started.elapsed().as_secs_f64();
    std::fs::remove_file(source)?;
    Ok(seconds)
}

/// Runs the pass, with the check of the table's digest and the noise, and returns its seconds.
pub(super) fn run(table: &Path) -> Result<f64, Box<dyn Error>> {
    let spec = super::spec()?;
    let layout = spec.layout()?;
    let rules = public_rules()?;
    let started = Instant::now();
    let table = UnverifiedTable::open(table)?;
    let sum = sum_contributions(&spec, (&layout, 0), &table, &|| Ok(()))?;
    let clearance = Clearance::Public(gate::prove_public(&rules)?);
    let release = sum.release(1.0, clearance, &Randomness::from_os(Purpose::Noise))?;
    std::hint::black_box(release.vector());
    Ok(started.elapsed().as_secs_f64())
}

/// Made-up people are no one's data.
pub(super) fn public_rules() -> Result<DatasetRules, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("policy.toml");
    declare(&path, "people", Visibility::Public)?;
    Ok(Policy::load(&path)?.rules("people"))
}
