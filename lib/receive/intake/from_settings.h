#pragma once
/// The intake settings of programs that receive from outside (smtpd, pickup) or write mail themselves (bounce,
/// tlsrpt), from main.cf and a service's -o options.
///
/// Use:     auto settings = intake::from_settings(context.settings());   // then set what differs in this program
/// Errors:  a malformed table specification.
/// Source:  Postfix receive_override_options, content_filter, *_bcc_maps.
#include <memory>
#include <string>
#include <vector>

#include "lib/config/settings.h"
#include "lib/receive/intake/derived.h"
#include "lib/receive/intake/intake.h"

namespace pen::intake {

/// receive_override_options; true: the step is done, which is the default.
struct ReceiveSteps {
  bool unknown_recipient_checks = true, address_mappings = true, header_body_checks = true, milters = true;
  std::vector<std::string> unknown;  // unknown words
};
ReceiveSteps receive_steps(const std::vector<std::string>& receive_override_options);

/// The tables of header_checks and so on, and the limits of checks.
CheckTables::Specs check_specs(const config::Settings& s);

/// Whether a list of classes contains this one, in any case.
bool names_class(const std::vector<std::string>& classes, std::string_view word);
/// smtputf8_autodetect_classes for mail of one class (sendmail, smtpd, forward, bounce, notify, verify).
bool detects_smtputf8(const config::Settings& s, std::string_view mail_class);

/// internal_mail_filter_classes and smtputf8_autodetect_classes for mail of class bounce or notify.
OwnMail own_mail(const config::Settings& s, std::string_view mail_class);

/// The form that signed messages are brought into: as smtp sends them to hosts that take least.
AnyHostForm::Options signed_form(const config::Settings& s);

/// Those for messages that the suite itself writes (notices, reports): of any size; `checks` as own_mail() says.
Settings for_own_mail(const config::Settings& s, std::shared_ptr<const CheckTables> checks = nullptr);

/// All settings except detect_smtputf8, which depends on the program. keys: of the key process; nullptr: the program
/// reads its DKIM keys itself.
Result<Settings> from_settings(const config::Settings& s, std::shared_ptr<signing::RemoteKeys> keys = nullptr);

}  // namespace pen::intake
