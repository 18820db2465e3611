/// check_greylist: puts off clients that were not seen before (docs/greylisting.md).
#include <fmt/format.h>

#include "lib/base/idn/domain.h"
#include "lib/base/network.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/suite/sessions/client_counts.h"
#include "smtpd/restrictions.h"

namespace pen::smtpd::restrictions {
namespace {

std::uint32_t in_seconds(milliseconds time) {
  return static_cast<std::uint32_t>(std::chrono::ceil<seconds>(time).count());
}

/// One key for all senders that a mailing list makes of one address: without extension, and with its numbers, which
/// stand for a recipient or a message, as '#'.
std::string general(std::string_view sender, std::string_view delimiters) {
  const auto local = mail::local_part(sender);
  const auto base = local.substr(0, delimiters.empty() ? local.npos : local.find_first_of(delimiters, 1));
  std::string out;
  for (std::size_t i = 0; i < base.size();) {
    std::size_t end = i;
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    while (end < base.size() && digit(base[end])) ++end;
    const bool apart = (i == 0 || !ascii_alnum(base[i - 1])) && (end == base.size() || !ascii_alnum(base[end]));
    if (end > i && apart) {
      out += '#';
      i = end;
    } else {
      end = std::max(end, i + 1);
      out += base.substr(i, end - i);
      i = end;
    }
  }
  return idn::address_key(out + '@' + std::string(mail::domain_part(sender)));
}

sessions::SenderMemory::Question greylist_question(Evaluation& e) {
  const auto& s = e.policy.settings;
  sessions::SenderMemory::Question q;
  q.client = sessions::client_block(e.subject.client->peer.address, s.smtpd_greylist_ipv4_prefix_length,
                                    s.smtpd_greylist_ipv6_prefix_length);
  q.sender = general(*e.subject.sender, s.recipient_delimiter);
  q.recipient = idn::address_key(*e.subject.recipient);
  q.delay = in_seconds(s.smtpd_greylist_delay);
  q.window = std::max(in_seconds(s.smtpd_greylist_window), q.delay);
  q.keep = in_seconds(s.smtpd_greylist_keep_time);
  q.passes = static_cast<std::uint32_t>(s.smtpd_greylist_known_after);
  return q;
}

}  // namespace

async::Task<Answer> check_greylist(Evaluation& e, const Restriction&, const Name&) {
  const bool whole = e.subject.sender && e.subject.recipient && parse_ip(e.subject.client->peer.address);
  if (!whole || !e.tools.memory) co_return Answer::dunno;
  const auto answer = co_await e.tools.memory->greylist(
      greylist_question(e), {.deadline = e.tools.loop.now() + e.policy.settings.smtpd_timeout});
  if (!answer) co_return Answer::dunno;
  const auto wall = e.tools.loop.clock().wall_now();
  if (answer->delayed > 0)
    e.greylisted = fmt::format("X-Greylist: delayed {} seconds by {}; {}", answer->delayed,
                               e.policy.settings.myhostname, rfc5322_date(wall));
  if (answer->wait == 0) co_return Answer::dunno;
  const std::string text = fmt::format("Greylisted, try again in {} seconds", answer->wait);
  // Another refusal, of an unknown user say, comes before this one.
  co_return e.warn ? e.refuse(450, "4.2.0", e.recipient_label(), text)
                   : e.refuse_if_permitted(450, "4.2.0", e.recipient_label(), text);
}

}  // namespace pen::smtpd::restrictions
