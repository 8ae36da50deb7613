//! Maps values to positions on a drawing, and chooses the marks of an axis.

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Linearly.
    Linear,
    /// Logarithmically.
    Logarithmic,
}

/// An axis: values from `low` to `high` are drawn from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// From 0 to slightly more than the largest value.
    pub fn linear(largest: f64, start: f64, end: f64) -> Self {
        let high = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        Self { kind: Kind::Linear, low: 0.0, high, start, end }
    }

    /// Whole powers of ten around the values; values that are not positive do not count.
    pub fn logarithmic(values: impl IntoIterator<Item = f64>, start: f64, end: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.into_iter().filter(|value| value.is_finite() && *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high == 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let (low, mut high) = (10f64.powf(low.log10().floor()), 10f64.powf(high.log10().ceil()));
        if high <= low {
            high = low * 10.0;
        }
        Self { kind: Kind::Logarithmic, low, high, start, end }
    }

    /// The position of a value; values outside are drawn at the ends.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Logarithmic => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.start + share * (self.end - self.start)
    }

    /// Values for marks: round ones, about `wanted` of them on a linear axis, every power of ten on a logarithmic one.
    pub fn marks(&self, wanted: usize) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = round_up(self.high / wanted.max(1) as f64);
                let count = (self.high / step + 1e-9).floor() as usize;
                (0..=count).map(|at| at as f64 * step).collect()
            }
            Kind::Logarithmic => {
                let decades = (self.high / self.low).log10().round() as i32;
                (0..=decades).map(|decade| self.low * 10f64.powi(decade)).collect()
            }
        }
    }
}

/// The next number of 1, 2, 2.5 or 5 with zeros.
fn round_up(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.iter().map(|step| step * power).find(|step| *step >= number * 0.999_999).unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_between_the_ends() {
        let scale = Scale::linear(200.0, 10.0, 110.0);
        assert_eq!((scale.at(0.0), scale.at(100.0), scale.at(200.0), scale.at(900.0)), (10.0, 60.0, 110.0, 110.0));
        let scale = Scale::logarithmic([3.0, 700.0], 100.0, 0.0);
        assert_eq!((scale.at(1.0), scale.at(10.0).round(), scale.at(1000.0)), (100.0, 67.0, 0.0));
        assert_eq!(scale.at(-5.0), 100.0);
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(Scale::linear(97.0, 0.0, 1.0).marks(4), [0.0, 25.0, 50.0, 75.0]);
        assert_eq!(Scale::linear(100.0, 0.0, 1.0).marks(5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let marks: Vec<String> =
            Scale::logarithmic([0.5, 20.0], 0.0, 1.0).marks(9).iter().map(|m| format!("{m:.1}")).collect();
        assert_eq!(marks, ["0.1", "1.0", "10.0", "100.0"]);
    }

    #[test]
    fn nothing_to_show_is_no_trouble() {
        for largest in [0.0, f64::NAN, -1.0] {
            assert!(Scale::linear(largest, 0.0, 50.0).at(0.5).is_finite());
        }
        assert!(Scale::logarithmic([], 0.0, 50.0).at(5.0).is_finite());
        assert!(!Scale::logarithmic([4.0], 0.0, 50.0).marks(3).is_empty());
    }
}
