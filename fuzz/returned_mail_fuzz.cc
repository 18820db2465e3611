// Content read as a notice or a feedback report: bounds hold, texts are single lines, and the cut does not matter.
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/mail/returned/reader.h"

namespace {

using namespace pen;
using returned::kMaxText;

returned::Report read(std::string_view input, std::size_t step) {
  returned::Reader reader;
  for (std::size_t at = 0; at < input.size(); at += step) reader.feed(input.substr(at, step));
  return reader.finish();
}

void one_line(const std::string& text) {
  PEN_CHECK(text.size() <= kMaxText, "a text beyond the bound");
  for (const char c : text) PEN_CHECK(static_cast<unsigned char>(c) >= ' ' && c != 0x7F, "a control byte");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const returned::Report report = read(input, size + 1);
  const returned::Report cut = read(input, 1 + size % 7);
  PEN_CHECK(report.notice.has_value() == cut.notice.has_value(), "the cut matters");
  PEN_CHECK(report.feedback.has_value() == cut.feedback.has_value(), "the cut matters");
  PEN_CHECK(report.original.message_id == cut.original.message_id, "the cut matters");
  PEN_CHECK(!report.notice || !report.feedback, "one or the other");
  for (const auto* text :
       {&report.original.message_id, &report.original.return_path, &report.original.from, &report.original.to})
    one_line(*text);
  if (report.notice) {
    const auto& notice = *report.notice;
    PEN_CHECK(!notice.recipients.empty() && notice.recipients.size() <= returned::kMostRecipients);
    PEN_CHECK(notice.recipients == cut.notice->recipients, "the cut matters");
    one_line(notice.reporting_mta);
    one_line(notice.envid);
    for (const auto& r : notice.recipients) {
      PEN_CHECK(!r.address().empty() && r.status.size() >= 5 && r.status.size() <= 9);
      for (const auto* text : {&r.original, &r.final, &r.diagnostic, &r.remote_mta}) one_line(*text);
    }
  }
  if (report.feedback) {
    const auto& f = *report.feedback;
    PEN_CHECK(f.recipients.size() <= returned::kMostRecipients && f.domains.size() <= returned::kMostDomains);
    for (const auto* text :
         {&f.user_agent, &f.mail_from, &f.source_ip, &f.arrival, &f.reporting_mta, &f.auth_failure, &f.delivery_result})
      one_line(*text);
    for (const auto& text : f.recipients) one_line(text);
    for (const auto& text : f.domains) one_line(text);
  }
  return 0;
}
