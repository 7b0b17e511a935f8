//! A value of a paper next to flashlab's, and the tolerance of their difference.

use serde::{Deserialize, Serialize};

/// How close flashlab has to be to the paper.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Agreement {
    /// Within this share of the paper's value.
    Within(f64),
    /// At most the paper's value.
    AtMost,
    /// At least the paper's value.
    AtLeast,
    /// The nearest power of two is the same.
    PowerOfTwo,
    /// The paper's value is for orientation.
    Any,
}

/// One value of a paper, and flashlab's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The device, by its name in the paper's table.
    pub device: String,
    /// The device, by its name in the zoo.
    #[serde(skip)]
    pub zoo: &'static str,
    /// The quantity, named as in the paper's table.
    pub quantity: String,
    /// Its unit; empty for a plain number.
    pub unit: String,
    /// The paper's value; `None` if the paper says that there is none, or gives no number.
    pub paper: Option<f64>,
    /// flashlab's value; `None` if it found none.
    pub flashlab: Option<f64>,
    /// How near they have to be.
    #[serde(skip)]
    pub agreement: Agreement,
}

impl Figure {
    /// The difference as a share of the paper's value.
    pub fn difference(&self) -> Option<f64> {
        match (self.paper, self.flashlab) {
            (Some(paper), Some(flashlab)) if paper != 0.0 => Some(flashlab / paper - 1.0),
            _ => None,
        }
    }

    /// Whether they are as close as they have to be.
    pub fn agrees(&self) -> bool {
        match (self.agreement, self.paper, self.flashlab) {
            (Agreement::Any, ..) | (_, None, None) => true,
            (_, None, Some(_)) | (_, Some(_), None) => false,
            (Agreement::Within(share), Some(paper), Some(flashlab)) => {
                (flashlab - paper).abs() <= share * paper.abs() + 1e-12
            }
            (Agreement::AtMost, Some(paper), Some(flashlab)) => flashlab <= paper,
            (Agreement::AtLeast, Some(paper), Some(flashlab)) => flashlab >= paper,
            (Agreement::PowerOfTwo, Some(paper), Some(flashlab)) => {
                let power = |value: f64| if value <= 0.0 { f64::NEG_INFINITY } else { value.log2().round() };
                power(paper) == power(flashlab)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_agree_as_they_have_to() {
        let figure = |agreement, paper, flashlab| Figure {
            device: String::new(),
            zoo: "",
            quantity: String::new(),
            unit: String::new(),
            paper,
            flashlab,
            agreement,
        };
        assert!(figure(Agreement::Within(0.15), Some(100.0), Some(114.0)).agrees());
        assert!(!figure(Agreement::Within(0.15), Some(100.0), Some(116.0)).agrees());
        assert!(figure(Agreement::PowerOfTwo, Some(8.0), Some(10.0)).agrees());
        assert!(!figure(Agreement::PowerOfTwo, Some(8.0), Some(16.0)).agrees());
        assert!(figure(Agreement::AtMost, Some(0.5), Some(0.4)).agrees());
        assert!(!figure(Agreement::AtLeast, Some(0.5), Some(0.4)).agrees());
        assert!(figure(Agreement::PowerOfTwo, Some(0.0), Some(0.0)).agrees());
        assert!(!figure(Agreement::Within(1.0), None, Some(1.0)).agrees());
        assert!(figure(Agreement::Within(0.0), None, None).agrees());
        assert_eq!(figure(Agreement::Any, Some(4.0), Some(5.0)).difference(), Some(0.25));
    }
}
