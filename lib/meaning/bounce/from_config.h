#pragma once
/// Settings of notices from main.cf and bounce_template_file; for bounce itself, for pickup and for penstock check.
///
/// Use:     auto templates = templates_from(config);          // error: report it, and use builtin_templates(config)
///          auto form = notice_form(config);                   // the same, with the other settings
///          auto copies = copies_from(config.settings());
/// Errors:  TemplateError, errno, ConfigError::bad_value; the message begins with the setting's name.
#include <string>

#include "lib/base/result.h"
#include "lib/config/config.h"
#include "lib/mail/dsn.h"
#include "lib/mail/notice_template.h"

namespace pen::bounce {

/// The addresses that get the postmaster's copies of notices (notify_classes). Empty: no copies.
struct PostmasterCopies {
  std::string failures;         // copies of failure notices: class bounce
  std::string delays;           // copies of warnings: class delay
  std::string failing_notices;  // notices that failed themselves: class 2bounce
};
Result<PostmasterCopies> copies_from(const config::Settings& settings);

/// The texts of notices; the built-in ones if bounce_template_file is empty. Expands every setting's name, and
/// delay_warning_time_ and maximal_queue_lifetime_ with seconds, minutes, hours, days or weeks appended.
Result<mail::NoticeTemplates> templates_from(const config::Config& config);
mail::NoticeTemplates builtin_templates(const config::Config& config);
/// The same before anything is expanded.
Result<mail::NoticeTemplates> written_templates(const config::Config& config);

/// The form of notices, for programs that make them.
struct NoticeForm {
  mail::DsnSettings settings;
  std::string problem;  // with the template file, so that the built-in texts are used; empty: none
};
NoticeForm notice_form(const config::Config& config);

}  // namespace pen::bounce
