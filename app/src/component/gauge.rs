//! A budget as a horizontal gauge. Spent is solid, reserved is hatched, the remainder is empty, the limit is a line; a
//! plan is a ghost behind them. It is the same on every page, never by colour alone.

use leptos::prelude::*;
use undertone_api::budget::Account;
use undertone_api::job::JobParticipant;
use undertone_privacy::PrivacyUnit;
use undertone_privacy::ledger::Summary;

use crate::words;

/// The content of a gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaugeReading {
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// The limit ε.
    pub limit: f64,
    /// δ of every ε here.
    pub delta: f64,
    /// ε spent.
    pub spent: f64,
    /// ε spent and reserved.
    pub committed: f64,
}

impl From<&Account> for GaugeReading {
    fn from(account: &Account) -> Self {
        Self {
            unit: account.unit,
            limit: account.epsilon.get(),
            delta: account.delta.get(),
            spent: account.spent,
            committed: account.committed,
        }
    }
}

impl GaugeReading {
    /// Returns the gauge of a balance; `None` without a budget.
    pub fn from_summary(summary: &Summary, unit: PrivacyUnit) -> Option<Self> {
        Some(Self {
            unit,
            limit: summary.limit?.get(),
            delta: summary.delta?.get(),
            spent: summary.spent_epsilon,
            committed: summary.committed_epsilon,
        })
    }

    /// Returns a job's own gauge for one participant: the spent part of its reservation, and, while the job is not
    /// `over`, the rest of it; `None` if it pays nothing.
    pub fn from_participant(participant: &JobParticipant, over: bool) -> Option<Self> {
        let charge = participant.charge.as_ref()?;
        let reserved = participant.epsilon_reserved?;
        let spent = participant.epsilon_spent.unwrap_or(0.0);
        Some(Self {
            unit: charge.unit,
            limit: reserved,
            delta: participant.delta?,
            spent,
            // Unspent reservations are returned at the end of the job.
            committed: if over { spent } else { reserved },
        })
    }

    /// Returns the ε that remains below the limit.
    pub fn remaining(&self) -> f64 {
        (self.limit - self.committed).max(0.0)
    }

    /// Returns an ε as a part of the limit: the scale of the bar and of each percentage beside it.
    pub fn share(&self, epsilon: f64) -> f64 {
        if self.limit > 0.0 { epsilon / self.limit } else { 0.0 }
    }

    /// Returns the gauge in one sentence, for screen readers.
    pub fn sentence(&self, ghost: Option<&PlanGhost>) -> String {
        let mut text = format!(
            "ε {} spent and {} reserved of {} at δ {}, {}; {} left",
            words::epsilon(self.spent),
            words::epsilon(self.committed - self.spent),
            words::limit(self.limit),
            words::delta(self.delta),
            words::gauge_noun(self.unit),
            words::epsilon_left(self.remaining()),
        );
        if let Some(ghost) = ghost {
            let verdict = if ghost.fits { "which fits" } else { "which is over the limit" };
            text = format!("{text}; with the plan {}, {verdict}", words::epsilon(ghost.committed));
        }
        text
    }
}

/// The effect of a plan on a gauge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanGhost {
    /// ε spent, reserved and planned.
    pub committed: f64,
    /// Whether the account would admit it.
    pub fits: bool,
}

/// The positions of a gauge's parts, in percent of its width.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaugeGeometry {
    /// Width of the solid part, from the left end.
    pub spent: f64,
    /// The end of the hatched part.
    pub committed: f64,
    /// The end of the ghost; never before the hatched part.
    pub ghost: f64,
    /// The position of the limit's line.
    pub limit: f64,
}

/// How far past its limit a gauge can show a plan.
const REACH: f64 = 1.25;

impl GaugeGeometry {
    /// Computes the geometry of a reading with the ghost of a plan. Without one the limit is the right end; a plan over
    /// the limit moves the limit inwards, at most so far that the scale grows by a quarter.
    pub fn new(reading: &GaugeReading, ghost: Option<&PlanGhost>) -> Self {
        let planned = ghost.map_or(0.0, |ghost| reading.share(ghost.committed));
        let is_over = ghost.is_some_and(|ghost| !ghost.fits);
        let fraction = if is_over { planned } else { planned.min(1.0) };
        let reach = if is_over { fraction.clamp(1.08, REACH) } else { 1.0 };
        let scaled = |part: f64| (part.clamp(0.0, reach) / reach * 100.0 * 100.0).round() / 100.0;
        let spent = scaled(reading.share(reading.spent).min(1.0));
        let committed = scaled(reading.share(reading.committed).min(1.0)).max(spent);
        let planned = if is_over { 100.0 } else { scaled(fraction) };
        Self {
            spent,
            committed,
            ghost: if ghost.is_some() { planned.max(committed) } else { committed },
            limit: scaled(1.0),
        }
    }
}

/// Renders the gauge with its number.
#[component]
pub fn Gauge(
    /// The reading.
    reading: GaugeReading,
    /// The plan behind it.
    #[prop(optional_no_strip)]
    ghost: Option<PlanGhost>,
    /// Omit the number.
    #[prop(optional)]
    bare: bool,
) -> impl IntoView {
    let geometry = GaugeGeometry::new(&reading, ghost.as_ref());
    let percent = |value: f64| format!("{value}%");
    let is_over = ghost.is_some_and(|ghost| !ghost.fits);
    view! {
        <div class="gauge" class:over=is_over>
            <svg class="gauge-bar" width="100%" height="14" role="img" aria-label=reading.sentence(ghost.as_ref())>
                <rect class="gauge-track" x="0" y="0" width="100%" height="14" rx="2"></rect>
                <rect class="gauge-ghost" x=percent(geometry.committed) y="0"
                    width=percent(geometry.ghost - geometry.committed) height="14"></rect>
                <rect fill="url(#hatch)" x=percent(geometry.spent) y="0"
                    width=percent(geometry.committed - geometry.spent) height="14"></rect>
                <rect class="gauge-spent" x="0" y="0" width=percent(geometry.spent) height="14" rx="2"></rect>
                <line class="gauge-limit" x1=percent(geometry.limit) x2=percent(geometry.limit) y1="-1" y2="15"></line>
            </svg>
            {(!bare).then(|| view! { <GaugeText reading ghost/> })}
        </div>
    }
}

/// Renders the number beside the gauge: `ε 2.41 of 8.00 at δ 10⁻⁶, speaker`.
#[component]
fn GaugeText(reading: GaugeReading, ghost: Option<PlanGhost>) -> impl IntoView {
    view! {
        <p class="gauge-text">
            <span class="gauge-number">
                <abbr title=words::EPSILON>"ε"</abbr>" "<strong>{words::epsilon(reading.spent)}</strong>
                {format!(" of {} at ", words::limit(reading.limit))}
                <abbr title=words::DELTA>"δ"</abbr>{format!(" {}, {}", words::delta(reading.delta), words::gauge_noun(reading.unit))}
            </span>
            <span class="gauge-rest" title=words::SHARE>{describe_rest(&reading, ghost)}</span>
        </p>
        {words::unit_measurement(reading.unit).map(|measured| view! { <p class="hint">{measured}</p> })}
    }
}

/// Describes the bar in words: the used budget, and the remainder or the effect of a plan.
fn describe_rest(reading: &GaugeReading, ghost: Option<PlanGhost>) -> String {
    let mut text = String::new();
    if reading.committed > reading.spent {
        text = format!("{} including reservations · ", words::epsilon(reading.committed));
    }
    text + &match ghost {
        Some(ghost) if ghost.fits => {
            format!(
                "{} with this plan · {} used",
                words::epsilon(ghost.committed),
                words::share(reading.share(ghost.committed))
            )
        }
        Some(ghost) => format!("{} with this plan: over the limit", words::epsilon(ghost.committed)),
        None => {
            let used = words::share(reading.share(reading.committed));
            format!("{} left · {used} used", words::epsilon_left(reading.remaining()))
        }
    }
}

/// Renders the hatching pattern that gauges refer to; once on every page.
#[component]
pub fn Hatching() -> impl IntoView {
    view! {
        <svg width="0" height="0" class="defs" aria-hidden="true" focusable="false">
            <defs>
                <pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
                    <rect class="hatch-ground" width="6" height="6"></rect>
                    <rect class="hatch-line" width="2.5" height="6"></rect>
                </pattern>
            </defs>
        </svg>
    }
}

#[cfg(test)]
mod tests {
    use undertone_privacy::PrivacyUnit;

    use super::{GaugeGeometry, GaugeReading, PlanGhost};

    fn reading(spent: f64, committed: f64) -> GaugeReading {
        GaugeReading {
            unit: PrivacyUnit::Speaker,
            limit: 8.0,
            delta: 1e-6,
            spent: spent * 8.0,
            committed: committed * 8.0,
        }
    }

    #[test]
    fn gauge_without_plan_ends_at_the_limit() {
        let geometry = GaugeGeometry::new(&reading(0.3, 0.5), None);
        assert_eq!(geometry, GaugeGeometry { spent: 30.0, committed: 50.0, ghost: 50.0, limit: 100.0 });
    }

    #[test]
    fn fitting_plan_ends_before_the_limit() {
        let ghost = PlanGhost { committed: 6.0, fits: true };
        let geometry = GaugeGeometry::new(&reading(0.3, 0.5), Some(&ghost));
        assert_eq!(geometry, GaugeGeometry { spent: 30.0, committed: 50.0, ghost: 75.0, limit: 100.0 });
    }

    #[test]
    fn plan_over_limit_crosses_the_limit_line() {
        for fraction in [1.000_1, 1.1, 2.0, f64::INFINITY] {
            let ghost = PlanGhost { committed: fraction * 8.0, fits: false };
            let geometry = GaugeGeometry::new(&reading(0.3, 0.5), Some(&ghost));
            assert!((75.0..100.0).contains(&geometry.limit), "{fraction}: {geometry:?}");
            assert!((geometry.ghost - 100.0).abs() < 1e-9, "{fraction}: {geometry:?}");
        }
    }

    #[test]
    fn gauge_parts_do_not_overlap() {
        for (spent, committed) in [(0.0, 0.0), (0.4, 0.4), (0.999, 1.0), (1.0, 1.0), (1.2, 1.3)] {
            let geometry = GaugeGeometry::new(&reading(spent, committed), None);
            assert!(geometry.spent <= geometry.committed, "{geometry:?}");
            assert!(geometry.committed <= geometry.limit, "{geometry:?}");
        }
    }

    #[test]
    fn bar_is_a_share_of_the_number_beside_it() {
        let reading = GaugeReading { limit: 12.0, spent: 9.0, committed: 9.0, ..reading(0.0, 0.0) };
        let geometry = GaugeGeometry::new(&reading, None);
        assert!((geometry.spent - 75.0).abs() < 1e-9, "{geometry:?}");
        assert_eq!(super::describe_rest(&reading, None), "3.00 left · 75 % used");
        let ghost = PlanGhost { committed: 10.5, fits: true };
        assert_eq!(super::describe_rest(&reading, Some(ghost)), "10.50 with this plan · 88 % used");
    }

    #[test]
    fn sentence_states_spent_reserved_limit_and_left() {
        assert_eq!(
            reading(0.25, 0.5).sentence(None),
            "ε 2.00 spent and 2.00 reserved of 8.00 at δ 10⁻⁶, speaker; 4.00 left"
        );
    }
}
