//! An authenticator for tests: returns the code that is valid at the test's clock.

use totp_rs::{Builder, Secret};
use undertone_api::account::{FactorCode, HalfSession};
use undertone_api::session::SignIn;

use super::{HERE, PASSWORD, Person, TestApp};
use crate::service::factor;
use crate::service::session::{self, SignInResult};

/// A registered authenticator, with its recovery codes.
pub struct Authenticator {
    secret: String,
    /// The recovery codes.
    pub codes: Vec<String>,
}

impl Authenticator {
    /// Returns the current code.
    pub fn code(&self, app: &TestApp) -> String {
        code(&self.secret, app)
    }
}

/// Returns the current code of a secret.
pub fn code(secret: &str, app: &TestApp) -> String {
    let secret = Secret::try_from_base32(secret).expect("base 32");
    let totp = Builder::new().with_secret(secret).build().expect("a secret");
    totp.generate(app.clock.now().unix_timestamp() as u64).to_string()
}

impl TestApp {
    /// Enables the second factor of a person.
    pub async fn two_factor(&self, person: &Person) -> Authenticator {
        let actor = person.actor(self).await;
        let offer = factor::offer(&self.ctx, &actor).await.expect("offered");
        let first = FactorCode { code: code(&offer.secret, self) };
        let codes = factor::confirm(&self.ctx, &actor, &first).await.expect("confirmed").codes;
        Authenticator { secret: offer.secret, codes }
    }

    /// Returns the half sign-in of a member with a second factor.
    pub async fn half(&self, email: &str) -> HalfSession {
        let credentials = SignIn { email: email.to_owned(), password: PASSWORD.to_owned() };
        match session::sign_in(&self.ctx, HERE, &credentials).await.expect("the password is right") {
            SignInResult::Half(half) => half,
            SignInResult::Whole(_) => panic!("no code was asked for"),
        }
    }
}
