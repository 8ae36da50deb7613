//! Measurements of many sensors over time. A key is the sensor and the big-endian time, so the measurements of a sensor
//! are adjacent and sorted by time: an interval is a range, and the newest measurement is the last key of a prefix.
//!
//!     cargo run --release --example time_series -- DIRECTORY

use alluvium::{Db, Options, WriteBatch};
use std::path::Path;

const SENSORS: [&str; 3] = ["boiler", "hall", "roof"];
const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

fn main() -> alluvium::Result<()> {
    run(Path::new(&std::env::args().nth(1).unwrap_or_else(|| "time_series.store".into())))
}

/// Ends with a separator that no name contains, so that "roof" is not a prefix of "roof2".
fn prefix(sensor: &str) -> Vec<u8> {
    [sensor.as_bytes(), b"\0"].concat()
}

fn key(sensor: &str, seconds: u64) -> Vec<u8> {
    [&prefix(sensor)[..], &seconds.to_be_bytes()].concat()
}

fn time_of(key: &[u8]) -> u64 {
    key.last_chunk().map_or(0, |time| u64::from_be_bytes(*time))
}

fn celsius(value: &[u8]) -> f64 {
    value.try_into().map_or(f64::NAN, f64::from_be_bytes)
}

/// Runs the example.
pub fn run(directory: &Path) -> alluvium::Result<()> {
    let db = Db::open(directory, Options::default())?;
    for minute in 0..3 * DAY / MINUTE {
        let mut batch = WriteBatch::new(); // all measurements of one moment become visible together
        for (number, sensor) in SENSORS.iter().enumerate() {
            let value = 20.0 + number as f64 + (minute as f64 / 720.0 * std::f64::consts::TAU).sin();
            batch.put(key(sensor, minute * MINUTE), value.to_be_bytes());
        }
        db.write(batch)?;
    }

    // The second day of one sensor.
    let (mut sum, mut count) = (0.0, 0);
    for pair in db.range(key("roof", DAY)..key("roof", 2 * DAY))? {
        sum += celsius(&pair?.1);
        count += 1;
    }
    println!("roof, second day: {count} measurements, mean {:.2} °C", sum / f64::from(count));
    assert_eq!(u64::from(count as u32), DAY / MINUTE);

    // The newest measurement of each sensor.
    for sensor in SENSORS {
        if let Some(pair) = db.prefix(prefix(sensor))?.next_back() {
            let (key, value) = pair?;
            println!("{sensor:8} {:6} s  {:.2} °C", time_of(&key), celsius(&value));
        }
    }

    // Deletes all but the last day. `compact_range` frees the space at once; without it the store frees it over time.
    for sensor in SENSORS {
        let old = key(sensor, 0)..key(sensor, 2 * DAY);
        for key in db.range(old.clone())?.keys() {
            db.delete(key?)?;
        }
        db.compact_range(old)?;
    }
    let left = db.iter()?.keys().count() as u64;
    println!("{left} measurements of the last day remain");
    assert_eq!(left, SENSORS.len() as u64 * DAY / MINUTE);
    db.close()
}
