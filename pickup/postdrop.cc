#include "pickup/postdrop.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/text.h"
#include "lib/queue/postfix_queue/envelope.h"
#include "lib/queue/postfix_queue/queue_file.h"

namespace pen::pickup {
namespace {

// Of the attribute trace_flags: the sender asked for a report on what would be done, and on what is done.
constexpr unsigned kVerify = 512, kRecord = 1024;

/// A queue file begins with the time, which sendmail leaves to postdrop.
std::string time_record(WallTime now) {
  const std::string text = std::to_string(unix_seconds(now));
  return "T" + std::string(1, static_cast<char>(text.size())) + text;
}

/// Content in the form that pickup reads: a CR at the end of a line is doubled, for one is taken off.
class Lines {
 public:
  void take(std::string_view part, bool line_ends) {
    content_ += part;
    if (!part.empty()) cr_ = part.ends_with('\r');
    if (!line_ends) return;
    if (std::exchange(cr_, false)) content_ += '\r';
    content_ += '\n';
  }
  std::string content_;

 private:
  bool cr_ = false;
};

}  // namespace

Result<PostdropMessage> read_postdrop(std::string_view input, WallTime now) {
  Lines lines;
  PEN_TRY_ASSIGN(const auto file, postfix_queue::read_queue_file(time_record(now).append(input),
                                                                 [&lines](std::string_view part, bool line_ends) {
                                                                   lines.take(part, line_ends);
                                                                 }));
  using submission::FormatError;
  if (!file.filter.empty() || !file.redirect.empty())
    return fail(FormatError::bad_envelope, "a record that the mail system alone may write");
  PEN_TRY_ASSIGN(auto taken, postfix_queue::envelope_of(file, {}));
  const auto& e = taken.envelope;
  PostdropMessage out;
  submission::Submission& s = out.submission;
  s.sender = e.sender;
  s.envid = e.envid;
  s.ret = e.ret;
  s.body_type = e.body_type;
  s.smtputf8 = e.smtputf8;
  s.verp = e.verp;
  s.full_name = file.full_name;
  s.recipients = e.recipients;
  const auto flags = parse_unsigned(file.attribute("trace_flags")).value_or(0);
  if ((flags & kVerify) != 0)
    s.purpose = mail::Purpose::probe;
  else if ((flags & kRecord) != 0)
    s.purpose = mail::Purpose::traced;
  if (auto wrong = submission::check(s, false); !wrong.empty())
    return fail(FormatError::bad_envelope, std::move(wrong));
  out.content = std::move(lines.content_);
  return out;
}

namespace {
void put(std::string& out, std::string_view name, std::string_view value) {
  out.append(name) += '\0';
  out.append(value) += '\0';
}
}  // namespace

std::string postdrop_greeting(std::string_view queue_id) {
  std::string out;
  put(out, "protocol", "postdrop_protocol");
  put(out, "queue_id", queue_id);
  return out += '\0';
}

std::string postdrop_end(PostdropStatus status) {
  std::string out;
  put(out, "status", std::to_string(static_cast<int>(status)));
  put(out, "reason", "");
  return out += '\0';
}

}  // namespace pen::pickup
