#include "lib/send/mailbox/content.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "lib/base/text.h"

namespace pen::mailbox {
namespace {
constexpr std::string_view kFrom = "From ";

/// A host name may come from anywhere; '/' and ':' have a meaning in a Maildir name.
std::string file_safe(std::string_view host) {
  std::string out;
  for (const char c : host) {
    if (c == '/')
      out += "\\057";
    else if (c == ':')
      out += "\\072";
    else
      out += c > 32 && c < 127 ? c : '_';
  }
  return out;
}
}  // namespace

void LineEnds::feed(std::string_view chunk, std::string& out) {
  while (!chunk.empty()) {
    if (cr_) {
      if (chunk.front() != '\n') out += '\r';
      cr_ = false;
    }
    const auto cr = chunk.find('\r');
    if (cr == std::string_view::npos) {
      out += chunk;
      return;
    }
    out += chunk.substr(0, cr);
    chunk.remove_prefix(cr + 1);
    cr_ = true;
  }
}

void LineEnds::finish(std::string& out) {
  if (cr_) out += '\r';
  cr_ = false;
}

void MboxQuoter::feed(std::string_view chunk, std::string& out) {
  while (!chunk.empty()) {
    if (line_start_) {
      // Matching bytes are held back until it is known whether '>' is needed.
      while (!chunk.empty() && matched_ < kFrom.size() && chunk.front() == kFrom[matched_]) {
        ++matched_;
        chunk.remove_prefix(1);
      }
      if (matched_ < kFrom.size() && chunk.empty()) return;
      if (matched_ == kFrom.size()) out += '>';
      out += kFrom.substr(0, matched_);
      matched_ = 0;
      line_start_ = false;
      continue;
    }
    const auto lf = chunk.find('\n');
    if (lf == std::string_view::npos) {
      out += chunk;
      return;
    }
    out += chunk.substr(0, lf + 1);
    chunk.remove_prefix(lf + 1);
    line_start_ = true;
  }
}

void MboxQuoter::finish(std::string& out) {
  if (!line_start_ || matched_ > 0) {
    out += kFrom.substr(0, matched_);
    out += '\n';
  }
  matched_ = 0;
  line_start_ = true;
  out += '\n';
}

std::string field_safe(std::string_view address) {
  std::string out(address);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '?';
  return out;
}

std::string mbox_from_line(std::string_view sender, WallTime when) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t t = static_cast<std::time_t>(unix_seconds(when));
  std::tm tm{};
  ::localtime_r(&t, &tm);
  std::string from = sender.empty() ? "MAILER-DAEMON" : field_safe(sender);
  for (char& c : from)
    if (c == ' ') c = '_';  // readers split this line at spaces, and a quoted local part may hold one
  return fmt::format("From {}  {} {} {:2} {:02}:{:02}:{:02} {}\n", from, kDays[tm.tm_wday], kMonths[tm.tm_mon],
                     tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, tm.tm_year + 1900);
}

std::string prepended_fields(std::string_view sender, std::string_view original_to, std::string_view delivered_to) {
  std::string out = fmt::format("Return-Path: <{}>\n", field_safe(sender));
  if (!original_to.empty()) out += fmt::format("X-Original-To: {}\n", field_safe(original_to));
  if (!delivered_to.empty()) out += fmt::format("Delivered-To: {}\n", field_safe(delivered_to));
  return out;
}

std::vector<std::string_view> delivered_to(std::string_view header) {
  std::vector<std::string_view> found;
  while (!header.empty()) {
    const auto lf = std::min(header.find('\n'), header.size());
    auto line = header.substr(0, lf);
    header.remove_prefix(std::min(lf + 1, header.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) break;
    constexpr std::string_view kField = "Delivered-To:";
    if (istarts_with(line, kField)) found.push_back(trim(line.substr(kField.size())));
  }
  return found;
}

bool was_delivered_to(std::string_view header, std::string_view address) {
  const std::string written = field_safe(address);
  return std::ranges::any_of(delivered_to(header), [&](std::string_view said) { return iequals(said, written); });
}

std::string MaildirName::temporary() const {
  return fmt::format("{}.P{}Q{}R{:x}.{}", unix_seconds(now), pid, counter, random, file_safe(hostname));
}

std::string MaildirName::final(unsigned long long device, unsigned long long inode) const {
  const auto fraction = (now.time_since_epoch() % seconds(1)).count();
  return fmt::format("{}.V{:x}I{:x}M{}.{}", unix_seconds(now), device, inode, fraction, file_safe(hostname));
}

}  // namespace pen::mailbox
