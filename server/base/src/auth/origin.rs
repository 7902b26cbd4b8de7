//! The origin of a request: its full address for throttling, and the part that is stored with a session. Only a network
//! and a family from closed lists are stored: enough for members to recognize their own devices, too little to track a
//! person.

use std::net::IpAddr;

use undertone_api::id::MemberId;

/// Browsers and programs by their marks in the user agent, the more specific first: nearly all name several browsers.
const FAMILIES: [(&str, &str); 13] = [
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("Wget/", "Wget"),
    ("python", "a Python program"),
    ("Go-http-client/", "a Go program"),
    ("node", "a Node program"),
];

/// Operating systems by their marks in the user agent.
const SYSTEMS: [(&str, &str); 7] = [
    ("Android", "Android"),
    ("iPhone", "iOS"),
    ("iPad", "iOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
];

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The address; used for throttling, never stored.
    pub address: IpAddr,
    family: &'static str,
    system: &'static str,
    /// The member of a known device.
    device: Option<MemberId>,
}

impl Origin {
    /// Makes an origin from the address and the user agent.
    pub fn new(address: IpAddr, user_agent: &str) -> Self {
        let find_name = |list: &[(&str, &'static str)]| {
            list.iter().find(|(mark, _)| user_agent.contains(mark)).map_or("", |(_, name)| name)
        };
        Self { address, family: find_name(&FAMILIES), system: find_name(&SYSTEMS), device: None }
    }

    /// Returns the origin with the member of a known device.
    #[must_use]
    pub const fn with_device(mut self, member: Option<MemberId>) -> Self {
        self.device = member;
        self
    }

    /// Returns whether the member signed in before in this browser.
    pub fn is_device_of(&self, member: MemberId) -> bool {
        self.device == Some(member)
    }

    /// Returns the family and the system as far as they are known, for example `Firefox on Linux`.
    pub fn agent(&self) -> String {
        match (self.family, self.system) {
            ("", "") => "another program".to_owned(),
            ("", system) => format!("another program on {system}"),
            (family, "") => family.to_owned(),
            (family, system) => format!("{family} on {system}"),
        }
    }

    /// Returns the network: `192.0.2.0/24`, `2001:db8:1::/48`.
    pub fn network(&self) -> String {
        match self.address.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                format!("{a}.{b}.{c}.0/24")
            }
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                format!("{}/48", IpAddr::from([a, b, c, 0, 0, 0, 0, 0]))
            }
        }
    }
}

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self::new(address, "")
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::Origin;

    #[test]
    fn a_session_keeps_a_family_and_a_network_and_nothing_finer() {
        let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) \
                     Version/18.0 Mobile/15E148 Safari/604.1";
        let edge = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 \
                    Safari/537.36 Edg/140.0.0.0";
        let here = IpAddr::from([192, 0, 2, 77]);
        let agent = |text: &str| Origin::new(here, text).agent();
        assert_eq!(agent(firefox), "Firefox on Linux");
        assert_eq!(agent(phone), "Safari on iOS");
        assert_eq!(agent(edge), "Edge on Windows");
        assert_eq!(agent("python-requests/2.32"), "a Python program");
        assert_eq!(agent("<script>alert(1)</script> someone@example.org"), "another program");
        assert_eq!(Origin::from(here).network(), "192.0.2.0/24");
        assert_eq!(Origin::from("2001:db8:1:2::3".parse::<IpAddr>().expect("an address")).network(), "2001:db8:1::/48");
        assert_eq!(Origin::from("::ffff:192.0.2.77".parse::<IpAddr>().expect("an address")).network(), "192.0.2.0/24");
    }
}
