#include "qmgr/queue_filter.h"

#include <algorithm>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"

namespace pen::qmgr {
namespace {

/// wanted: an address, "@domain", or "<>".
bool is_meant(std::string_view wanted, std::string_view address) {
  if (wanted == "<>") return address.empty();
  if (wanted.starts_with('@')) return !address.empty() && idn::same_domain(domain_of(address), wanted.substr(1));
  return idn::same_address(address, wanted);
}

bool contains(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) { return ascii_lower(a) == ascii_lower(b); };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

/// A footer may hold the beginning of a sender only, in segments so small that no other would fit.
constexpr std::size_t kCutSender = 64;

}  // namespace

std::string_view domain_of(std::string_view address) {
  const auto at = address.rfind('@');
  return at == std::string_view::npos ? std::string_view() : address.substr(at + 1);
}

ipc::queue::Place place_of(const queue_log::Listed& l) {
  using ipc::queue::Place;
  if (l.active) return Place::active;
  if (l.place.log == queue_log::kJournal) return Place::incoming;
  return l.place.log == queue_log::kHold ? Place::hold : Place::deferred;
}

QueueFilter::QueueFilter(ipc::queue::Filter filter, std::string site, WallTime now)
    : filter_(std::move(filter)), site_(std::move(site)), now_(now) {}

QueueFilter::Answer QueueFilter::footer(const queue_log::Listed& l) const {
  if (filter_.places != 0 && (filter_.places & bit_of(place_of(l))) == 0) return Answer::no;
  if (filter_.older > seconds(0) && l.arrived > now_ - filter_.older) return Answer::no;
  bool sure = true;
  if (!filter_.sender.empty() && !is_meant(filter_.sender, l.sender)) {
    if (l.sender.size() != kCutSender) return Answer::no;
    sure = false;
  }
  // The footer has the domains of the recipients that were left: it decides about one domain, and can rule out more.
  int conditions = 0;
  const bool cut = l.domains.size() >= queue_log::kMaxDomains;
  for (const std::string_view wanted :
       {std::string_view(site_), std::string_view(filter_.domain), domain_of(filter_.recipient)}) {
    if (wanted.empty()) continue;
    ++conditions;
    if (!cut &&
        std::none_of(l.domains.begin(), l.domains.end(), [&](const auto& d) { return idn::same_domain(d, wanted); }))
      return Answer::no;
  }
  if (!filter_.recipient.empty() && !filter_.recipient.starts_with('@')) sure = false;
  // A recovered message's footer may name domains with no recipients left by now.
  const bool recovered = l.generation > 0 && l.place.log == queue_log::kJournal;
  if (conditions == 1 && (cut || l.active || recovered)) sure = false;
  if (!filter_.reply.empty() || !filter_.tenant.empty() || conditions > 1) sure = false;
  return sure ? Answer::yes : Answer::ask;
}

bool QueueFilter::any_recipient() const {
  return site_.empty() && filter_.recipient.empty() && filter_.domain.empty() && filter_.reply.empty();
}

bool QueueFilter::recipient(const std::string& address) const {
  const auto domain = domain_of(address);
  if (!site_.empty() && !idn::same_domain(domain, site_)) return false;
  if (!filter_.domain.empty() && !idn::same_domain(domain, filter_.domain)) return false;
  return filter_.recipient.empty() || is_meant(filter_.recipient, address);
}

bool QueueFilter::dropped(const submission::Dropped& d) const {
  if (filter_.older > seconds(0) && d.arrival > now_ - filter_.older) return false;
  if (!filter_.tenant.empty()) return false;  // it gets one when it is taken into the queue
  if (!d.submission) return filter_.sender.empty() && any_recipient();
  if (!filter_.sender.empty() && !is_meant(filter_.sender, d.submission->sender)) return false;
  if (any_recipient()) return true;
  return filter_.reply.empty() &&
         std::ranges::any_of(d.submission->recipients, [&](const mail::Recipient& r) { return recipient(r.address); });
}

bool QueueFilter::envelope(const Active& m) const {
  if (!filter_.tenant.empty() && !iequals(filter_.tenant, m.envelope().tenant)) return false;
  if (!filter_.sender.empty() && !is_meant(filter_.sender, m.envelope().sender)) return false;
  if (filter_.older > seconds(0) && m.envelope().arrival > now_ - filter_.older) return false;
  if (any_recipient()) return true;
  const auto meant = [&](std::uint32_t ordinal) {
    if (!recipient(m.envelope().recipients[ordinal].address)) return false;
    if (filter_.reply.empty()) return true;
    const auto note = m.notes.find(ordinal);
    return note != m.notes.end() && contains(note->second.status.text, filter_.reply);
  };
  for (const auto& range : m.remaining.ranges())
    for (std::uint32_t i = range.first; i < range.end && i < m.envelope().recipients.size(); ++i)
      if (meant(i)) return true;
  return false;
}

}  // namespace pen::qmgr
