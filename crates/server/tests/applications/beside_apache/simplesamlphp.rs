//! SimpleSAMLphp, whose pages are behind a script: `/module.php/core/…`.

use std::fs;

use crate::browser::{Attachment, Browser};
use crate::server::Server;

use super::application::{Application, Explained};
use super::compare::Part;
use super::stage::Stage;

const SETTINGS: &str = "/etc/simplesamlphp";
const PASSWORD: &str = "a long pass phrase";

const METADATA: &str = "<?xml version=\"1.0\"?>\n\
    <md:EntityDescriptor xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" \
    entityID=\"https://example.org/sp\"><md:SPSSODescriptor \
    protocolSupportEnumeration=\"urn:oasis:names:tc:SAML:2.0:protocol\">\
    <md:AssertionConsumerService Binding=\"urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST\" \
    Location=\"https://example.org/acs\" index=\"0\"/>\
    </md:SPSSODescriptor></md:EntityDescriptor>\n";

pub(super) const SIMPLESAMLPHP: Application = Application {
    name: "simplesamlphp",
    needs: &["/usr/share/simplesamlphp/www/module.php"],
    root: "/usr/share/simplesamlphp/www",
    site: "",
    virtual_host: "",
    database: false,
    set_up,
    work,
    done: "Refused and good log-ins of the administrator and of a user of its example module, \
           the attributes of both, and metadata uploaded and converted.",
    starts: &[
        "/",
        "/module.php/core/frontpage_welcome.php",
        "/module.php/core/frontpage_config.php",
        "/module.php/core/frontpage_auth.php",
        "/module.php/core/authenticate.php",
        "/module.php/core/authenticate.php?as=admin",
        "/module.php/saml/sp/metadata.php/default-sp",
        "/module.php/core/no-such-page.php",
        "/module.php/nothing",
        "/admin/hostnames.php",
        "/resources/default.css",
        "/module.php",
        "/nothing",
    ],
    most: 120,
    leave: &["logout"],
    volatile: &[
        ("cacheDuration", ">"),
        ("microtime", "</td>"),
        ("REQUEST_TIME", "</td>"),
        ("AuthState=", "\""),
        ("trackid", "<"),
    ],
    explained: &[Explained {
        part: Part::Content,
        url: "/admin/phpinfo.php",
        apache: "Apache 2.0 Handler",
        howdah: "Howdah",
        reason: "The page shows `phpinfo()`, which names the server.",
    }],
    logged: &[],
};

fn set_up(stage: &mut Stage) {
    let settings = stage.own(SETTINGS);
    let file = settings.join("config.php");
    let temporary = stage.folder_for_php("temporary");
    let text = fs::read_to_string(&file).unwrap();
    let own = format!(
        "\n$config['baseurlpath'] = '';\n$config['session.cookie.secure'] = false;\n\
         $config['tempdir'] = '{}';\n\
         $config['module.enable']['exampleauth'] = true;\n\
         $config['auth.adminpassword'] = '{PASSWORD}';\n",
        temporary.display()
    );
    fs::write(&file, text + &own).unwrap();
    let file = settings.join("authsources.php");
    let text = fs::read_to_string(&file).unwrap();
    let source = "\n$config['example-userpass'] = [\n    'exampleauth:UserPass',\n    \
                  'mahout:carries' => ['uid' => ['mahout'], 'animal' => ['elephant']],\n];\n";
    fs::write(&file, text + source).unwrap();
}

fn work<'s>(_: &Stage, server: &'s Server) -> Browser<'s> {
    let browser = Browser::new(server);
    let page = "/module.php/core/authenticate.php?as=admin";
    let log_in = |page: &str, values: &[(&str, &str)]| {
        let form = browser.visit(page);
        browser.send_form(&form, form.is(200).form_with("password"), values)
    };
    log_in(page, &[("password", "guessed")]).contains("Incorrect username or password");
    log_in(page, &[("password", PASSWORD)]).is(200).contains("logout");
    let user = Browser::new(server);
    let form = user.visit("/module.php/core/authenticate.php?as=example-userpass");
    let values = [("username", "mahout"), ("password", "carries")];
    user.send_form(&form, form.form_with("password"), &values)
        .is(200)
        .contains("elephant");

    let form = browser.visit("/admin/metadata-converter.php");
    let file = Attachment {
        field: "xmlfile",
        name: "metadata.xml",
        media_type: "text/xml",
        content: METADATA.as_bytes(),
    };
    let converted = browser.send_file(&form, form.is(200).form_with("xmldata"), &[], &file);
    converted.is(200).contains("https://example.org/acs");
    browser
}
