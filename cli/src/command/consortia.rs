//! `undertone consortia`: the caller's consortia.

use undertone_api::consortium::Consortium;

use crate::client::RestClient;
use crate::output::{StandardOutput, format_table};
use crate::{CommandAnswer, CommandResult};

/// Lists the consortia.
pub(crate) async fn run(out: &mut StandardOutput) -> CommandResult {
    let consortia: Vec<Consortium> = RestClient::open()?.list("/consortia", "").await?;
    out.print(&consortia, |consortia| {
        let row = |one: &Consortium| vec![one.id.to_string(), one.organizations.len().to_string(), one.name.clone()];
        format_table(&["ID", "ORGANIZATIONS", "NAME"], &consortia.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(CommandAnswer::Positive)
}
