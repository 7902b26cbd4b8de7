//! Notifies members about wrong codes of their second factor: at sign-in, such a caller knows the password.

use undertone_api::id::MemberId;

use crate::auth::Door;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::attempt;
use crate::service::notification::{MemberNotice, tell};

/// The numbers of wrong codes within a day at which the member is notified, once each.
pub(in crate::service) const NOTIFIED_AFTER: [i32; 3] = [3, 10, 20];

/// Notifies a member after a wrong code of the second factor, at the third, the tenth and the twentieth of a day.
///
/// # Errors
/// When the database fails.
pub(in crate::service) async fn notify_wrong_codes(ctx: &Ctx, tx: &Tx, member: MemberId) -> Result<(), Error> {
    let (attempts, began) = attempt::attempts(ctx, tx, &Door::DailyCodes(member)).await?;
    // Concurrent attempts may all see the same count; a notice with the same key is sent once.
    let Some(at_least) = NOTIFIED_AFTER.into_iter().rev().find(|number| attempts >= *number) else { return Ok(()) };
    tell(ctx, tx, MemberNotice::SecondFactorFailed { member: member.0, at_least, began }).await
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use undertone_api::account::SecondStep;
    use undertone_api::notification::{NotificationKind, NotificationQuery};
    use undertone_api::problem::Code;

    use crate::auth::{DAY, WINDOW};
    use crate::service::{notification, session};
    use crate::testing::{HERE, TestApp, on_both};

    const EMAIL: &str = "operator@example.org";

    /// Gives a wrong code at sign-in; returns the error code.
    async fn guess(app: &TestApp, half_token: &str) -> Code {
        let step = SecondStep { half_token: half_token.to_owned(), code: "wrong".to_owned() };
        session::finish(&app.ctx, HERE, &step).await.expect_err("it is wrong").code()
    }

    on_both! {
        async fn third_wrong_code_notifies_the_member_once(app: &TestApp) {
            let person = app.operator().await;
            app.two_factor(&person).await;
            let half = app.half(EMAIL).await;
            let query = NotificationQuery {
                kind: Some(NotificationKind::SecondFactorFailed),
                ..NotificationQuery::default()
            };
            for (number, notices) in [(1, 0), (2, 0), (3, 1), (4, 1)] {
                assert_eq!(guess(app, &half.half_token).await, Code::WrongCode);
                let actor = person.actor(app).await;
                let listed = notification::list(&app.ctx, &actor, &query).await.expect("listed").items;
                assert_eq!(listed.len(), notices, "after {number}: {listed:?}");
            }
        }

        async fn twenty_wrong_codes_close_the_second_factor_for_a_day(app: &TestApp) {
            let person = app.operator().await;
            let device = app.two_factor(&person).await;
            for _ in 0..4 {
                let half = app.half(EMAIL).await;
                for _ in 0..5 {
                    assert_eq!(guess(app, &half.half_token).await, Code::WrongCode);
                }
                app.clock.advance(WINDOW);
            }
            let right = async || {
                let half_token = app.half(EMAIL).await.half_token;
                session::finish(&app.ctx, HERE, &SecondStep { half_token, code: device.code(app) }).await
            };
            let closed = right().await.expect_err("closed for the day").into_problem();
            // Four windows of 15 minutes have passed.
            let rest = DAY - Duration::hours(1);
            let left = rest.whole_seconds() as u32;
            assert_eq!((closed.code, closed.retry_after), (Code::RateLimited, Some(left)));
            app.clock.advance(rest - Duration::SECOND);
            assert_eq!(right().await.expect_err("one second left").code(), Code::RateLimited);
            app.clock.advance(Duration::SECOND);
            right().await.expect("the day is over");
        }

        async fn right_code_forgives_no_earlier_guess_of_the_day(app: &TestApp) {
            let person = app.operator().await;
            let device = app.two_factor(&person).await;
            for _ in 0..4 {
                app.clock.advance(WINDOW);
                let half = app.half(EMAIL).await;
                for _ in 0..4 {
                    assert_eq!(guess(app, &half.half_token).await, Code::WrongCode);
                }
                let step = SecondStep { half_token: half.half_token, code: device.code(app) };
                session::finish(&app.ctx, HERE, &step).await.expect("the member's own code");
            }
            let half = app.half(EMAIL).await;
            for _ in 0..4 {
                assert_eq!(guess(app, &half.half_token).await, Code::WrongCode);
            }
            assert_eq!(guess(app, &half.half_token).await, Code::RateLimited, "sixteen guesses before, and four now");
        }
    }
}
