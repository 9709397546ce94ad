//! Memory per key: resident memory above that of the same server empty, as keys are added.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use crate::accounting;
use crate::compare::{preload, progress};
use crate::key_distribution::KeyDistribution;
use crate::record;
use crate::server_process::{ServerProcess, ServerSpec};
use crate::tables::DataSet;

/// How long a server may finish what it does in the background before it is measured.
const SETTLE: Duration = Duration::from_millis(500);

/// A measurement of memory.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// The servers, measured one after the other.
    pub servers: Vec<ServerSpec>,
    /// The smallest number of keys.
    pub from: u64,
    /// The largest.
    pub to: u64,
    /// Keys between two measurements.
    pub step: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The folder of the result file; without one nothing is recorded.
    pub results: Option<PathBuf>,
}

/// Bytes per key of one server, at each number of keys.
struct Curve {
    name: String,
    /// What the result file says of the server.
    server: Value,
    empty_bytes: u64,
    points: Vec<(u64, f64)>,
}

impl Measurement {
    /// Runs it, prints its table and writes its file.
    ///
    /// # Errors
    /// When a server fails.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.step > 0 && self.from > 0 && self.from <= self.to, "0 < from <= to, 0 < step");
        let curves: Vec<Curve> =
            self.servers.iter().map(|spec| self.measure(spec)).collect::<anyhow::Result<_>>()?;
        progress("");
        self.print(&curves);
        record::keep(self.results.as_deref(), "memory", self.record(&curves))?;
        Ok(())
    }

    fn measure(&self, spec: &ServerSpec) -> anyhow::Result<Curve> {
        progress(&format!("starting {}", spec.name));
        let server = ServerProcess::start(spec)?;
        let data = DataSet {
            key_count: self.to,
            key_bytes: self.key_bytes,
            value_bytes: self.value_bytes,
            distribution: KeyDistribution::Uniform,
        };
        let resident = || {
            std::thread::sleep(SETTLE);
            accounting::resident(server.id()).map(|resident| resident.total)
        };
        let empty_bytes = resident()?;
        let (mut loaded, mut points) = (0, Vec::new());
        let mut count = self.from;
        while count <= self.to {
            preload(&server.unix(), &data, loaded, count)?;
            loaded = count;
            let used = resident()?.saturating_sub(empty_bytes);
            points.push((count, used as f64 / count as f64));
            count += self.step;
        }
        Ok(Curve { name: spec.name.clone(), server: spec.record(), empty_bytes, points })
    }

    fn print(&self, curves: &[Curve]) {
        println!(
            "resident bytes per key above the empty server, keys of {} B, values of {} B\n",
            self.key_bytes, self.value_bytes
        );
        print!("{:>10}", "keys");
        curves.iter().for_each(|curve| print!(" {:>14}", curve.name));
        println!();
        for (index, &(count, _)) in curves[0].points.iter().enumerate() {
            print!("{count:>10}");
            curves.iter().for_each(|curve| print!(" {:>14.2}", curve.points[index].1));
            println!();
        }
        for (title, number) in [("mean", Curve::mean as fn(&Curve) -> f64), ("maximum", Curve::max)]
        {
            print!("{title:>10}");
            curves.iter().for_each(|curve| print!(" {:>14.2}", number(curve)));
            println!();
        }
    }

    fn record(&self, curves: &[Curve]) -> Value {
        let curve = |curve: &Curve| {
            json!({
                "server": curve.server,
                "empty_bytes": curve.empty_bytes,
                "mean_bytes_per_key": curve.mean(),
                "max_bytes_per_key": curve.max(),
                "points": curve.points.iter()
                    .map(|(keys, bytes)| json!({ "keys": keys, "bytes_per_key": bytes }))
                    .collect::<Vec<_>>(),
            })
        };
        json!({
            "key_bytes": self.key_bytes,
            "value_bytes": self.value_bytes,
            "curves": curves.iter().map(curve).collect::<Vec<_>>(),
        })
    }
}

impl Curve {
    fn mean(&self) -> f64 {
        self.points.iter().map(|(_, bytes)| bytes).sum::<f64>() / self.points.len() as f64
    }

    fn max(&self) -> f64 {
        self.points.iter().map(|&(_, bytes)| bytes).fold(0.0, f64::max)
    }
}
