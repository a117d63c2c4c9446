//! The two formats of metrics: families, samples and labels as text.

use std::fmt::Write;

use crate::observe::Histogram;

/// The two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// `application/openmetrics-text; version=1.0.0`.
    OpenMetrics,
    /// `text/plain; version=0.0.4`.
    Prometheus,
}

impl MetricsFormat {
    /// Chooses the format for an Accept field: OpenMetrics where the client names it.
    pub(crate) fn of_accept(accept: Option<&[u8]>) -> MetricsFormat {
        let accept = accept.unwrap_or_default().to_ascii_lowercase();
        let is_openmetrics = |member: &[u8]| {
            let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let is_type = parts.next() == Some(b"application/openmetrics-text");
            let is_refused = |part: &[u8]| {
                let quality = part.strip_prefix(b"q=");
                quality.is_some_and(|quality| quality.iter().all(|byte| b"0.".contains(byte)))
            };
            is_type && !parts.any(is_refused)
        };
        match accept.split(|&byte| byte == b',').any(is_openmetrics) {
            true => MetricsFormat::OpenMetrics,
            false => MetricsFormat::Prometheus,
        }
    }

    /// The value of Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::OpenMetrics => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A metric family: its name without `_total`, its unit or nothing, and its description.
pub(super) type MetricFamily = (&'static str, &'static str, &'static str);

/// A page of metrics that is being written.
pub(super) struct MetricsPage {
    text: String,
    format: MetricsFormat,
}

impl MetricsPage {
    pub(super) fn new(format: MetricsFormat) -> MetricsPage {
        MetricsPage { text: String::new(), format }
    }

    /// Returns the page with its last line.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }

    /// Writes a family of gauges.
    pub(super) fn gauge(
        &mut self,
        family: MetricFamily,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.head(family, "gauge", "");
        samples
            .into_iter()
            .for_each(|(labels, value)| self.sample(family.0, &labels, value));
    }

    /// Writes a family of counters.
    pub(super) fn counter(
        &mut self,
        family: MetricFamily,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.head(family, "counter", "_total");
        let name = format!("{}_total", family.0);
        samples
            .into_iter()
            .for_each(|(labels, value)| self.sample(&name, &labels, value));
    }

    /// Writes a family of histograms, in seconds.
    pub(super) fn histogram<'h>(
        &mut self,
        family: MetricFamily,
        samples: impl IntoIterator<Item = (Labels, &'h Histogram)>,
    ) {
        self.head(family, "histogram", "");
        let name = family.0;
        for (labels, histogram) in samples {
            for (bound, count) in &histogram.buckets {
                let labels = labels.clone().and("le", &float(*bound));
                self.sample(&format!("{name}_bucket"), &labels, *count as f64);
            }
            let all = labels.clone().and("le", "+Inf");
            self.sample(&format!("{name}_bucket"), &all, histogram.count as f64);
            self.sample(&format!("{name}_sum"), &labels, histogram.sum);
            self.sample(&format!("{name}_count"), &labels, histogram.count as f64);
        }
    }

    fn head(&mut self, (name, unit, help): MetricFamily, kind: &str, suffix: &str) {
        let suffix = match self.format {
            MetricsFormat::OpenMetrics => "",
            MetricsFormat::Prometheus => suffix,
        };
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# HELP {name}{suffix} {help}");
        let _ = writeln!(self.text, "# TYPE {name}{suffix} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name}{suffix} {unit}");
        }
    }

    fn sample(&mut self, name: &str, labels: &Labels, value: f64) {
        let _ = match labels.0.as_str() {
            "" => writeln!(self.text, "{name} {}", float(value)),
            labels => writeln!(self.text, "{name}{{{labels}}} {}", float(value)),
        };
    }
}

/// The labels of a sample, escaped.
#[derive(Debug, Clone, Default)]
pub(super) struct Labels(String);

impl Labels {
    /// The label `site`.
    pub(super) fn site(name: &str) -> Labels {
        Labels::default().and("site", name)
    }

    /// Adds a label. Its value is escaped.
    pub(super) fn and(mut self, name: &str, value: &str) -> Labels {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => self.0.push_str("\\\\"),
                '"' => self.0.push_str("\\\""),
                '\n' => self.0.push_str("\\n"),
                plain => self.0.push(plain),
            }
        }
        self.0.push('"');
        self
    }
}

/// A number in the shortest form that both formats know.
fn float(value: f64) -> String {
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_follows_the_accept_field() {
        let openmetrics = MetricsFormat::OpenMetrics;
        for (accept, expected) in [
            (None, MetricsFormat::Prometheus),
            (Some("*/*"), MetricsFormat::Prometheus),
            (Some("text/plain"), MetricsFormat::Prometheus),
            (Some("application/openmetrics-text; version=1.0.0, text/plain;q=0.5"), openmetrics),
            (Some("text/plain, Application/OpenMetrics-Text;q=0.75"), openmetrics),
            (Some("application/openmetrics-text;q=0.0, */*"), MetricsFormat::Prometheus),
        ] {
            assert_eq!(MetricsFormat::of_accept(accept.map(str::as_bytes)), expected, "{accept:?}");
        }
    }
}
