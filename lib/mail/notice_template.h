#pragma once
/// The words of notices: built in, or from a template file in the form of Postfix's bounce(5).
///
/// Use:     Result<NoticeTemplates> t = parse_notice_templates(text);   // then expand each text's "$name", and
///          settings.templates = *std::move(t);                         // DsnSettings, lib/mail/dsn.h
/// Form:    failure_template, delay_template, success_template and verify_template, each "name = <<WORD", header
///          lines (Charset, From, Subject, Postmaster-Subject), an empty line, text, and a line with WORD alone.
///          Outside a template, empty lines and lines that start with # are ignored. A template or header line that
///          the file does not define is the built-in one.
/// Errors:  bad_template, with the line number and advice.
/// Bounds:  kMaxTemplateFile bytes; lines of 900 bytes.
/// Source:  bounce(5) of Postfix.
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace pen::mail {

enum class TemplateError { bad_template = 1 };
std::string_view error_module(TemplateError);
std::string_view describe(TemplateError);

struct NoticeTemplate {
  std::string charset = "us-ascii";
  std::string from = {};  // empty: DsnSettings::from
  std::string subject;
  std::string postmaster_subject;  // empty: subject
  std::string text;                // lines that end with LF; before expansion they may hold "$name"
};

struct NoticeTemplates {
  NoticeTemplate failure, delay, success, verify;
};

inline constexpr std::size_t kMaxTemplateFile = 256 * 1024;

/// The built-in words; their texts hold "$name".
const NoticeTemplates& builtin_notice_templates();
Result<NoticeTemplates> parse_notice_templates(std::string_view file);

}  // namespace pen::mail
