#pragma once
/// What main.cf and a service's -o options say to the intake of a receiver from outside: smtpd, pickup.
///
/// Use:     auto settings = intake::from_settings(context.settings());   // then what is different in this program
/// Errors:  a table specification that cannot be read.
/// Source:  Postfix receive_override_options, content_filter, *_bcc_maps.
#include <string>
#include <vector>

#include "lib/config/settings.h"
#include "lib/intake/derived.h"
#include "lib/intake/intake.h"

namespace pen::intake {

/// receive_override_options: true: the step is done, as without the setting.
struct ReceiveSteps {
  bool unknown_recipient_checks = true, address_mappings = true, header_body_checks = true;
  std::vector<std::string> unknown;  // words that are none of its options
};
ReceiveSteps receive_steps(const std::vector<std::string>& receive_override_options);

/// The tables of header_checks and so on, and the limits of looking for what they are about.
CheckTables::Specs check_specs(const config::Settings& s);

/// Whether a list of classes has this one, in any case.
bool names_class(const std::vector<std::string>& classes, std::string_view word);
/// smtputf8_autodetect_classes for mail of one class (sendmail, smtpd, forward, bounce, notify, verify).
bool detects_smtputf8(const config::Settings& s, std::string_view mail_class);

/// internal_mail_filter_classes and smtputf8_autodetect_classes for mail of class bounce or notify.
OwnMail own_mail(const config::Settings& s, std::string_view mail_class);

/// All but what depends on the program: detect_smtputf8.
Result<Settings> from_settings(const config::Settings& s);

}  // namespace pen::intake
