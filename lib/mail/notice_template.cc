#include "lib/mail/notice_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/base/text.h"

namespace pen::mail {
namespace {

// A line of a message holds 998 bytes; expanding "$name" makes a line longer.
constexpr std::size_t kMaxLine = 900;

NoticeTemplates make_builtin() {
  NoticeTemplates t;
  t.failure.subject = "Undelivered Mail Returned to Sender";
  t.failure.postmaster_subject = "Postmaster Copy: Undelivered Mail";
  t.failure.text =
      "This is the mail system at host $myhostname.\n\n"
      "Your message could not be delivered to the recipients named below.\n"
      "It is returned with this notice, and it will not be tried again.\n\n"
      "If you need help, write to postmaster and include this report;\n"
      "your own text in the returned message may be left out.\n\n"
      "                   The mail system ($mail_name)\n";
  t.delay.subject = "Delayed Mail (still being retried)";
  t.delay.postmaster_subject = "Postmaster Warning: Delayed Mail";
  t.delay.text =
      "This is the mail system at host $myhostname.\n\n"
      "THIS IS ONLY A WARNING: YOU DO NOT NEED TO SEND YOUR MESSAGE AGAIN.\n\n"
      "Your message has waited for more than $delay_warning_time_hours hour(s) and has not yet\n"
      "been delivered to the recipients named below. It will be tried again until it\n"
      "is $maximal_queue_lifetime_days day(s) old.\n\n"
      "If you need help, write to postmaster and include this report.\n\n"
      "                   The mail system ($mail_name)\n";
  t.success.subject = "Successful Mail Delivery Report";
  t.success.text =
      "This is the mail system at host $myhostname.\n\n"
      "Your message was handed to the recipients named below, as you asked to be told.\n"
      "Where it says that the message was relayed, the next mail system does not send\n"
      "such reports, and no further one may come.\n\n"
      "                   The mail system ($mail_name)\n";
  t.verify.subject = "Mail Delivery Status Report";
  t.verify.text =
      "This is the mail system at host $myhostname.\n\n"
      "This is the report on delivery that you asked for.\n\n"
      "                   The mail system ($mail_name)\n";
  return t;
}

/// The lines of a file, numbered from 1.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  /// The next line without its end; nullopt: there are no more.
  std::optional<std::string_view> next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    const auto lf = rest_.find('\n');
    std::string_view line = rest_.substr(0, lf);
    rest_.remove_prefix(lf == std::string_view::npos ? rest_.size() : lf + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }
  std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

std::unexpected<Error> bad(std::size_t line, std::string_view what) {
  return fail(TemplateError::bad_template, fmt::format("line {}: {}", line, what));
}

bool plain(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return c >= ' ' && c < 0x7f; });
}

Result<void> take_field(NoticeTemplate& t, std::string_view line, std::size_t number) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos)
    return bad(number, "a header line \"Name: value\" or the empty line before the text is expected");
  const auto name = trim(line.substr(0, colon));
  const auto value = trim(line.substr(colon + 1));
  if (value.empty()) return bad(number, fmt::format("{}: no value", printable(name, 40)));
  if (!plain(value))
    return bad(number, fmt::format("{}: only ASCII can stand here (RFC 2047 has encoded words)", printable(name, 40)));
  if (iequals(name, "Charset")) {
    const bool token = std::ranges::all_of(
        value, [](char c) { return ascii_alnum(c) || std::string_view("!#$%&'*+-^_`{|}~").contains(c); });
    if (!token) return bad(number, "Charset: not the name of a character set");
    t.charset = value;
  } else if (iequals(name, "From")) {
    t.from = value;
  } else if (iequals(name, "Subject")) {
    t.subject = value;
  } else if (iequals(name, "Postmaster-Subject")) {
    t.postmaster_subject = value;
  } else {
    return bad(number,
               fmt::format("{}: Charset, From, Subject or Postmaster-Subject is expected", printable(name, 40)));
  }
  return {};
}

Result<void> take_template(NoticeTemplate& t, Lines& lines, std::string_view word) {
  const std::size_t begin = lines.number();
  bool in_text = false;
  t.text.clear();
  t.charset = "us-ascii";
  while (const auto line = lines.next()) {
    if (*line == word) {
      if (t.text.empty()) return bad(lines.number(), "the template has no text");
      return {};
    }
    if (line->size() > kMaxLine) return bad(lines.number(), fmt::format("longer than {} bytes", kMaxLine));
    if (!in_text && !line->empty()) {
      PEN_TRY(take_field(t, *line, lines.number()));
    } else if (!in_text) {
      in_text = true;
    } else {
      if (iequals(t.charset, "us-ascii") &&
          std::ranges::any_of(*line, [](char c) { return static_cast<unsigned char>(c) > 0x7f; }))
        return bad(lines.number(), "text that is not ASCII needs a Charset: line (utf-8)");
      t.text.append(*line);
      t.text += '\n';
    }
  }
  return bad(begin, fmt::format("no line \"{}\" ends this template", printable(word, 40)));
}

}  // namespace

std::string_view error_module(TemplateError) { return "bounce template"; }
std::string_view describe(TemplateError) { return "not a template file"; }

const NoticeTemplates& builtin_notice_templates() {
  static const NoticeTemplates builtin = make_builtin();
  return builtin;
}

Result<NoticeTemplates> parse_notice_templates(std::string_view file) {
  if (file.size() > kMaxTemplateFile)
    return fail(TemplateError::bad_template, fmt::format("more than {} bytes", kMaxTemplateFile));
  NoticeTemplates out = builtin_notice_templates();
  const std::pair<std::string_view, NoticeTemplate*> known[] = {{"failure_template", &out.failure},
                                                                {"delay_template", &out.delay},
                                                                {"success_template", &out.success},
                                                                {"verify_template", &out.verify}};
  std::vector<std::string_view> seen;
  Lines lines(file);
  while (const auto line = lines.next()) {
    const auto text = trim(*line);
    if (text.empty() || text.starts_with('#')) continue;
    const auto equals = text.find('=');
    const auto name = trim(text.substr(0, equals));
    const auto value = equals == std::string_view::npos ? std::string_view() : trim(text.substr(equals + 1));
    if (!value.starts_with("<<")) return bad(lines.number(), "\"name_template = <<WORD\" is wanted");
    const auto word = trim(value.substr(2));
    if (word.empty()) return bad(lines.number(), "a word that ends the template must follow <<");
    const auto* const t = std::ranges::find_if(known, [&](const auto& k) { return k.first == name; });
    if (t == std::end(known))
      return bad(lines.number(), fmt::format("{}: failure_template, delay_template, success_template "
                                             "or verify_template is expected",
                                             printable(name, 40)));
    if (std::ranges::find(seen, name) != seen.end())
      return bad(lines.number(), fmt::format("{} is defined twice", name));
    seen.push_back(name);
    PEN_TRY(take_template(*t->second, lines, word));
  }
  return out;
}

}  // namespace pen::mail
