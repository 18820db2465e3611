#include "qmgr/reports.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/metrics/metrics.h"
#include "lib/mail/logged.h"
#include "lib/mail/verp.h"
#include "qmgr/notice_rules.h"

namespace pen::qmgr {

namespace {

// Of recipients in one report: far below a frame of the conversation, and a message that can be read.
constexpr std::size_t kReportBytes = 8U << 20;
constexpr std::size_t kProbedBytes = 256U << 10;  // of one answer to verify
void count_made(ipc::bounce::Kind kind) {
  using ipc::bounce::Kind;
  metrics::notices.add(kind == Kind::failure ? metrics::Notice::failure
                       : kind == Kind::delay ? metrics::Notice::delay
                                             : metrics::Notice::success);
}

/// In the frame, numbers and lengths reckoned large.
std::size_t size_in_report(const mail::Recipient& r, const mail::DeliveryStatus& s) {
  return r.address.size() + r.original.size() + r.orcpt.size() + s.dsn.size() + s.text.size() + s.diagnostic.size() +
         s.remote_mta.size() + 64;
}

}  // namespace

bool Reports::start(Active& m) {
  auto kind = next_report(around_.options, m, around_.now());
  if (!kind) return false;
  if (*kind == ipc::bounce::Kind::first_try && m.envelope().purpose == mail::Purpose::verification) {
    tell_verify(m);
    return false;
  }
  if (m.envelope().sender.empty() && (*kind != ipc::bounce::Kind::failure || !around_.options.double_bounces)) {
    // Nobody to tell: a notification about a notification is never sent (RFC 5321 section 6.1).
    for (auto& [ordinal, n] : m.notes) n.owed = 0;
    return false;
  }
  // A warning, as what is said of a first try that has to be repeated, leaves nothing in the message but in the version
  // that a crash may have cut off.
  if ((*kind == ipc::bounce::Kind::delay || *kind == ipc::bounce::Kind::first_try) && std::exchange(m.restarted, false))
    m.recovered = true;
  if (m.recovered && !discharges_.known()) {
    m.reporting = true;
    looking_up_.push_back(m.number);
    return true;
  }
  if (m.recovered) {
    m.recovered = false;
    if (const auto made = discharges_.take(m.id()); !made.empty()) {
      for (const auto& d : made) discharge(d);
      kind = next_report(around_.options, m, around_.now());
      if (!kind) return false;
    }
  }
  return ask(m, *kind);
}

void Reports::tell_verify(Active& m) {
  ipc::verify::Probed probed;
  probed.queue_id = m.id();
  std::size_t bytes = 0;
  for (auto& [ordinal, n] : m.notes) {
    if ((n.owed & kFirstTry) == 0) continue;
    n.owed = 0;
    const auto& recipient = m.envelope().recipients[ordinal];
    if (probed.address.empty()) probed.address = recipient.shown_original();
    // Aliases may make thousands of one address: one good result of the first is enough, and usual.
    bytes += size_in_report(recipient, n.status);
    if (bytes <= kProbedBytes || probed.results.empty()) probed.results.push_back(n.status);
  }
  ++made_;
  around_.ports.probed(std::move(probed));
}

bool Reports::ask(Active& m, ipc::bounce::Kind kind) {
  const std::uint8_t bit = bit_of(kind);
  ipc::bounce::Notify notify;
  notify.request = next_request_++;
  notify.kind = kind;
  if (kind == ipc::bounce::Kind::delay) notify.will_retry_until = m.envelope().due_from() + around_.options.lifetime;
  notify.permit = around_.options.new_permit();
  Asked asked{m.number, notify.permit, notify.kind, {}};
  const bool each = around_.options.verp_bounces && kind == ipc::bounce::Kind::failure && !m.envelope().verp.empty();
  std::size_t bytes = 0;
  for (const auto& [ordinal, n] : m.notes) {
    if ((n.owed & bit) == 0) continue;
    bytes += size_in_report(m.envelope().recipients[ordinal], n.status);
    // The rest stays owed, and goes into another report when this one is made.
    if ((each || bytes > kReportBytes) && !notify.recipients.empty()) break;
    asked.ordinals.add(ordinal);
    notify.recipients.push_back({ordinal, m.envelope().recipients[ordinal], n.status, n.when});
    // confirm_delay_cleared: a sender with a notice of the delay gets one of the delivery, whatever NOTIFY says of
    // success.
    if (kind == ipc::bounce::Kind::success) notify.recipients.back().recipient.notify |= mail::notify::kSuccess;
  }
  notify.envelope = m.envelope();
  notify.envelope.recipients.clear();
  if (each)
    notify.envelope.sender =
        mail::verp_sender(m.envelope().sender, m.envelope().verp, notify.recipients.front().recipient.shown_original());
  const auto body = active_.body_of(m);
  if (!body) {
    m.report_refused = true;
    return false;
  }
  notify.inline_body = *body;
  Fd fd;
  if (m.spool_file != 0) {
    auto opened = around_.ports.open_body(m.spool_file, m.id());
    if (!opened) {
      log::error("{}: cannot open the message's content for a report: {}", m.id(), opened.error().message());
      m.report_refused = true;
      return false;
    }
    fd = std::move(*opened);
    notify.body_offset = m.spool_offset;
  }
  m.reporting = true;
  asked_[notify.request] = std::move(asked);
  around_.ports.notify(notify, std::move(fd));
  return true;
}

void Reports::notified(const ipc::bounce::Notified& answer) {
  const auto it = asked_.find(answer.request);
  if (it == asked_.end()) return;
  const Asked asked = std::move(it->second);
  Active* m = active_.find(asked.message);
  asked_.erase(it);
  if (m == nullptr) return;
  m->reporting = false;
  if (answer.done) {
    ++made_;
    count_made(asked.kind);
    mark_told(*m, asked.ordinals, asked.kind);
  } else {
    log::warning("{}: the report to <{}> could not be made: {}", m->id(), m->envelope().sender, answer.text);
    m->report_refused = true;
  }
  rounds_.look_at(m->number);
}

void Reports::give_up(Active& m) {
  const auto patience = std::max(around_.options.bounce_lifetime, around_.options.backoff_max);
  std::size_t given_up = 0;
  for (auto& [ordinal, n] : m.notes) {
    if (n.owed == 0 || around_.now() - n.when < patience) continue;
    n.owed = 0;
    ++given_up;
  }
  if (given_up > 0)
    log::error("{}: from=<{}>, the report on {} recipients could not be made for too long, given up", m.id(),
               mail::logged(m.envelope().sender), given_up);
}

/// Each note in the journal is the whole message anew. A VERP message that many refused has as many reports: after
/// every sixteenth part of them the price of a crash is a second notice for those since.
bool Reports::worth_noting(const Active& m) const {
  const std::size_t recipients = m.envelope().recipients.size();
  if (m.envelope().verp.empty() || recipients < 32) return true;
  const auto owed = std::ranges::count_if(m.notes, [](const auto& n) { return n.second.owed != 0; });
  return static_cast<std::size_t>(owed) % (recipients / 16) == 0;
}

bool Reports::may_discharge(const mail::Discharge& d, std::uint64_t permit) const {
  return permit != 0 && std::any_of(asked_.begin(), asked_.end(), [&](const auto& r) {
           const Asked& asked = r.second;
           if (asked.permit != permit || d.kind != static_cast<std::uint8_t>(asked.kind)) return false;
           const Active* m = active_.find(d.queue_id);
           return m != nullptr && m->number == asked.message &&
                  std::all_of(d.ordinals.begin(), d.ordinals.end(),
                              [&](std::uint32_t o) { return asked.ordinals.contains(o); });
         });
}

void Reports::discharge(const mail::Discharge& d) {
  // The notification is durable: its report is no longer owed, whatever becomes of the program that made it.
  Active* found = active_.find(d.queue_id);
  if (found == nullptr) return;
  Active& m = *found;
  queue_log::OrdinalSet ordinals;
  for (const std::uint32_t ordinal : d.ordinals) ordinals.add(ordinal);
  mark_told(m, ordinals, static_cast<ipc::bounce::Kind>(d.kind));
  if ((!m.remaining.empty() || m.owes()) && worth_noting(m)) {
    // What is left goes to a retry log, which is synced later than the notification's own deliveries: say it here, in
    // the journal, before they begin. Without space the price is a second notice after a crash.
    active_.renew(m);
  }
  if (m.owes() || !m.reporting) return;
  m.reporting = false;
  count_made(static_cast<ipc::bounce::Kind>(d.kind));
  std::erase_if(asked_, [&](const auto& r) { return r.second.message == m.number; });
  ++made_;
  rounds_.look_at(m.number);
}

void Reports::lost() {
  if (asked_.empty()) return;
  std::vector<MessageNumber> lost;
  for (const auto& [request, asked] : asked_) lost.push_back(asked.message);
  std::sort(lost.begin(), lost.end());
  asked_.clear();
  waiting_.insert(waiting_.end(), lost.begin(), lost.end());
  // as paced as master's restarts
  again_ = std::min(again_, around_.clock.now() + seconds(5));
}

void Reports::ready() {
  lost();
  if (!waiting_.empty()) again_ = around_.clock.now();
}

void Reports::unavailable(const std::string& why) {
  std::vector<std::uint64_t> requests;
  for (const auto& [request, asked] : asked_) requests.push_back(request);
  std::sort(requests.begin(), requests.end());
  for (const std::uint64_t request : requests) notified({request, false, {}, why});
}

void Reports::resume(std::deque<MessageNumber> messages) {
  for (const MessageNumber number : messages) {
    if (Active* m = active_.find(number)) {
      m->reporting = false;
      rounds_.look_at(number);
    }
  }
}

void Reports::ask_again() {
  if (again_ > around_.clock.now()) return;
  again_ = kNever;
  resume(std::exchange(waiting_, {}));
}

void Reports::look_back() {
  if (looking_up_.empty() || around_.log.restart().stage() != queue_log::Recovery::done) return;
  if (discharges_.look()) resume(std::exchange(looking_up_, {}));
}

SteadyTime Reports::wake_at() const { return discharges_.looking() ? around_.clock.now() : again_; }

}  // namespace pen::qmgr
