//! The rules of the ledger, pure: admission under a budget, and the effect of reserve, commit and settle on a balance.
//!
//! A budget (ε, δ) becomes a filter: at each order α of a small frozen grid, the most Rényi loss B(α) that still gives
//! (ε, δ / number of orders). A release is admitted when *some* order has spent + reserved + new within B(α), charged with
//! everything so far; every order is always charged. Splitting δ over the orders is what makes "some order" sound (the
//! disjunction lemma: the first order alive at the end partitions the transcripts). Everything is exact fixed point, so
//! server, worker and browser decide alike.
//!
//! # Proofs, and their use
//!
//! The analyst chooses the next job, its noise, its length and when to stop, from all that was released before (fully
//! adaptive composition). Theorems for parameters fixed in advance do not apply.
//!
//! * **One order.** Halting before Σρᵢ(α) exceeds B(α) gives (α, B(α))-Rényi DP of everything released, however the jobs
//!   were chosen (Feldman and Zrnic 2021; Lécuyer 2021). Used by [`Balance::check`], order by order.
//! * **Several orders at once.** Admitting while *some* order has room gives (ε, Σδ_α) when each order alone gives
//!   (ε, δ_α). Proof (disjunction lemma): the filters are monotone, once shut they stay shut, and all are charged with every
//!   job. Let S_α be the transcripts whose first order alive at the end is α. They partition all transcripts, and on S_α the
//!   process did exactly what the filter of α alone would have let happen, under both neighbours. So
//!   P(S ∩ S_α) ≤ e^ε Q(S ∩ S_α) + δ_α; sum over α. Hence the equal parts of δ in [`Budget::shares`]; "some order, all of δ
//!   each" is not a theorem.
//! * **Accrued δ apart.** Releases with a δ of their own are post-processing of "with probability δᵢ everything, else
//!   randomized response" (Kairouz, Oh and Viswanath 2015). Whether the first happened does not depend on the data, so
//!   P(S) ≤ P(S, it never did) + E\[Σδᵢ\], the first part is a Rényi process as above, and Σδᵢ never exceeds the side part of δ
//!   on any path. (For zero-concentrated DP: Whitehouse, Ramdas, Rogers and Wu 2023.) Hence [`Budget::side_delta`].
//! * **The Gaussian filter** ([`GridKind::Gaussian`]). A job whose parameters are fixed before its first output is charged as a
//!   whole, by a certificate (μ, δ₀): it is post-processing of "with probability δ₀ everything, else one Gaussian release of μ"
//!   (`pld/certificate.rs`). Jobs are admitted while Σμ² ≤ μ_B² and Σδ₀ ≤ δ_side, where a Gaussian release of μ_B is (ε, δ −
//!   δ_side)-private. Proof: replace every job by its mixture, at its first release; later releases, in any interleaving, are
//!   post-processing (Vadhan and Zhang 2023). Without the revealing branches, the process 𝒢 consists of Gaussian releases with
//!   adaptive μ, halted before Σμ² exceeds μ_B²: it is μ_B-Gaussian-DP (Smith and Thakurta 2022; Koskela, Tobaben and Honkela 2023), so
//!   ∫w dP_𝒢 ≤ e^ε ∫w dQ_𝒢 + δ − δ_side for every w in \[0, 1\]. Take for w, on the transcripts of an event S, the probability
//!   Π(1−δ₀) that no job revealed, which depends on the transcript alone: P(S, none revealed) ≤ e^ε Q(S) + δ − δ_side. The probability
//!   that some job revealed is at most E\[Σδ₀\] ≤ δ_side. The sum is (ε, δ).
//! * **One filter for each lineage.** The choice is made when the budget is set, with the grid, and holds for the life of the
//!   account; budgets that name no grid keep the Rényi filter, with the same bits as ever. Both filters as two disjuncts would
//!   be sound by the lemma above, but each would get a part of δ and be charged for every job, so a lineage would pay for a
//!   filter that it does not use. A row of the ledger states (μ², δ₀), and its verifier computes μ² again from the event and δ₀
//!   ([`JobCertificate`]). The Gaussian filter admits the more rounds of long private training, the Rényi filter returns
//!   what a job that stops early did not release.
//! * **Other filters.** Sums of (ε, δ) (Rogers, Roth, Ullman and Vadhan 2016) are sound too. They stand in `tests/filters`, with
//!   an independent Gaussian filter, to check these.
//! * **A limit that is raised** after a release begins a second promise; together they are the sum: [`Promises`].
//! * **Selections.** The pair of a private selection (`pld/selected.rs`) dominates its release for any base and any score, so a job
//!   whose rounds are selections has a certificate like any other. It is the less costly one of that and of the Rényi curve's;
//!   rows of earlier versions state the latter, and [`JobCertificate::verify`] accepts both. Prices under the Rényi filter are
//!   those of Papernot and Steinke 2022, as ever.
//! * **Not used**: loss distributions for admission without a certificate (there is no filter for them), and an odometer, a running claim of
//!   "ε so far" that holds at every moment (it costs more: Rogers et al. 2016). A gauge ([`Summary`]) shows the used
//!   part of the budget's filter, not such a claim; the claim that always holds is the budget itself.
//! * **Whole mechanisms.** A job whose releases have one price, as those with correlated noise ([`crate::correlated`]), is
//!   charged for all of them by its first release, under both filters. Until its last release other jobs go on: it is an
//!   interactive mechanism of fixed parameters, and filters for (ε, δ), f-DP, and Rényi DP of one order hold for concurrent
//!   interactive mechanisms that are chosen adaptively (Haney, Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang 2023). A job that
//!   stops early gets nothing back.
//! * **Concurrency.** The unit of commit is one release, and interleaved jobs are one sequence of releases. Reserving charges
//!   the worst case first, so what is spent at the end is at most what was admitted.
//! * **Several datasets.** Each account guards its own; [`across`] computes the loss of one person in several of them.
//!
//! The tests of `tests/filters/adaptive.rs` simulate the analyst and enumerate every transcript.
//!
//! # Exactness
//!
//! A balance is a function of integer counts: how many releases of which cost are open and committed. A cost is a whole
//! number of 2⁻⁶⁴ nat (`u128`, [`crate::Fixed`]), rounded up once when the event is priced and never again; sums and
//! multiples of it are exact, so they do not depend on the order of anything, are the same on every machine, and never
//! under-count. A value that does not fit is infinite, and refused. Budgets round down. ε is derived for display, rounded up, and
//! decides nothing.
//!
//! Nothing here reads a clock or a table. `Balance` is the content of an account's row, [`Reservation`] that of a
//! reservation's row; [`Account`] combines both and can be rebuilt from them.

mod account;
mod balance;
mod budget;
mod certificate;
mod consortium;
mod draft;
mod gauge;
mod headroom;
mod job_cost;
mod promise;
mod refusal;
mod reservation;
#[cfg(test)]
mod schedule;
#[cfg(test)]
mod whole;

pub use account::Account;
pub use balance::Balance;
pub use budget::{Budget, BudgetError, GridKind};
pub use certificate::{MOST_CERTIFIED_MU, MOST_CERTIFIED_STEPS, certify};
pub use consortium::{Overlap, across, combined};
pub use draft::Draft;
pub use gauge::Summary;
pub use headroom::Headroom;
pub use job_cost::{CertificateError, FilterKind, JobCertificate, JobCost};
pub use promise::{Promise, Promises};
pub use refusal::{BudgetShortfall, Refusal};
pub use reservation::{Reservation, ReservationId};

use crate::curve::CurveError;

/// The charge of one release to an account: its curve on the account's grid, from [`crate::mechanism::curve`].
pub type Cost = crate::curve::Curve;

/// Why the ledger rejected an operation. An operation that returns one of these has changed nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LedgerError {
    /// The budget does not admit it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The cost was computed on other orders than the account's.
    #[error("the cost is on other orders than the account keeps: price the event on the account's grid")]
    Grid(#[from] CurveError),
    /// The id of a new reservation is taken.
    #[error("reservation {0} exists already: reserve under a fresh id")]
    Duplicate(ReservationId),
    /// No reservation has this id.
    #[error("there is no reservation {0}: reserve before releasing")]
    Unknown(ReservationId),
    /// Every release of the reservation has been committed.
    #[error("all {releases} releases of reservation {id} are committed: reserve again for more")]
    Exhausted {
        /// The reservation.
        id: ReservationId,
        /// The number of its releases.
        releases: u64,
    },
    /// The reservation has been settled.
    #[error("reservation {0} is settled: reserve again for more")]
    Settled(ReservationId),
    /// Stored numbers contradict each other; the row named must be rebuilt from its events.
    #[error("the stored balance contradicts its reservations ({0}): rebuild the account from its rows")]
    Inconsistent(&'static str),
}
