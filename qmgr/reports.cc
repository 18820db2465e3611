/// What the sender is still to be told of a message, and that it is told once: docs/notices.md.
#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "qmgr/manager.h"

namespace pen::qmgr {

namespace {

std::uint8_t bit_of(ipc::bounce::Kind kind) {
  switch (kind) {
    case ipc::bounce::Kind::failure:
      return mail::notify::kFailure;
    case ipc::bounce::Kind::delay:
      return mail::notify::kDelay;
    case ipc::bounce::Kind::success:
      return mail::notify::kSuccess;
    case ipc::bounce::Kind::first_try:
      return kFirstTry;
  }
  return 0;
}

// Of recipients in one report: far below a frame of the conversation, and a message that can be read.
constexpr std::size_t kReportBytes = 8U << 20;
/// In the frame, numbers and lengths reckoned large.
std::size_t size_in_report(const mail::Recipient& r, const mail::DeliveryStatus& s) {
  return r.address.size() + r.original.size() + r.orcpt.size() + s.dsn.size() + s.text.size() +
         s.diagnostic.size() + s.remote_mta.size() + 64;
}

/// The sender knows now of these.
void told(Active& m, const queue_log::OrdinalSet& ordinals, ipc::bounce::Kind kind) {
  for (auto& [ordinal, n] : m.notes) {
    if (!ordinals.contains(ordinal)) continue;
    n.owed = static_cast<std::uint8_t>(n.owed & ~bit_of(kind));
    if (kind == ipc::bounce::Kind::delay) n.owed |= kWarned;
  }
  if (kind == ipc::bounce::Kind::first_try) m.end_trace();
}

}  // namespace

std::uint8_t Manager::owed_for(const Active& m, std::uint32_t ordinal,
                               const mail::DeliveryStatus& status) const {
  const mail::Envelope& e = m.envelope();
  const auto note = m.notes.find(ordinal);
  // The note says so where a part of the report has made the message an ordinary one.
  const bool reported = (e.purpose != mail::Purpose::mail && !e.sender.empty()) ||
                        (note != m.notes.end() && (note->second.owed & kFirstTry) != 0);
  const unsigned due = e.purpose == mail::Purpose::probe ? 0U : notices_due(m, ordinal, status);
  return static_cast<std::uint8_t>(due | (reported ? kFirstTry : 0U));
}

std::uint8_t Manager::notices_due(const Active& m, std::uint32_t ordinal,
                                  const mail::DeliveryStatus& status) const {
  const std::uint8_t notify = m.envelope().recipients[ordinal].notify;
  // A notice asks for none itself (RFC 3461 section 6.2); that does not bind the postmaster.
  if (status.action == mail::Action::failed && m.envelope().sender.empty())
    return options_.double_bounces ? mail::notify::kFailure : 0;
  if (status.action == mail::Action::failed)
    return notify == 0 || (notify & mail::notify::kFailure) != 0 ? mail::notify::kFailure : 0;
  const auto note = m.notes.find(ordinal);
  if (options_.confirm_delay_cleared && note != m.notes.end() && (note->second.owed & kWarned) != 0)
    return mail::notify::kSuccess | kWarned;
  const bool ours = status.action != mail::Action::transferred;
  return ours ? notify & mail::notify::kSuccess : 0;
}

bool Manager::late(const Active& m) const {
  return options_.delay_warning > seconds(0) && !m.parked && !m.remaining.empty() &&
         !m.envelope().sender.empty() && now() - m.envelope().arrival >= options_.delay_warning;
}

std::optional<ipc::bounce::Kind> Manager::next_report(Active& m) const {
  using ipc::bounce::Kind;
  std::uint8_t owed = 0;
  const bool traced =
      m.envelope().purpose == mail::Purpose::traced && !m.envelope().sender.empty() && !m.parked;
  for (auto& [ordinal, n] : m.notes) {
    if (traced && m.remaining.contains(ordinal)) n.owed |= kFirstTry;
    owed |= n.owed;
  }
  // Not before everybody has had his first try.
  if ((owed & kFirstTry) != 0 && !m.parked) return Kind::first_try;
  if ((owed & mail::notify::kFailure) != 0) return Kind::failure;
  if ((owed & mail::notify::kSuccess) != 0) return Kind::success;
  if (!late(m)) return std::nullopt;
  bool any = false;
  for (auto& [ordinal, n] : m.notes) {
    const std::uint8_t notify = m.envelope().recipients[ordinal].notify;
    if (!m.remaining.contains(ordinal) || (n.owed & kWarned) != 0 ||
        (notify != 0 && (notify & mail::notify::kDelay) == 0))
      continue;
    n.owed |= mail::notify::kDelay;
    any = true;
  }
  return any ? std::optional(Kind::delay) : std::nullopt;
}

bool Manager::start_report(Active& m) {
  auto kind = next_report(m);
  if (!kind) return false;
  if (m.envelope().sender.empty() &&
      (*kind != ipc::bounce::Kind::failure || !options_.double_bounces)) {
    // Nobody to tell: a notification about a notification is never sent (RFC 5321 section 6.1).
    for (auto& [ordinal, n] : m.notes) n.owed = 0;
    return false;
  }
  // A warning, as what is said of a first try that has to be repeated, leaves nothing in the message but in the version
  // that a crash may have cut off.
  if ((*kind == ipc::bounce::Kind::delay || *kind == ipc::bounce::Kind::first_try) &&
      std::exchange(m.restarted, false))
    m.recovered = true;
  if (m.recovered && !discharges_known_) {
    m.reporting = true;
    recovered_reports_.push_back(m.number);
    return true;
  }
  if (m.recovered) {
    m.recovered = false;
    if (auto it = known_discharges_.find(m.id()); it != known_discharges_.end()) {
      for (const auto& d : it->second) discharge(d);
      known_discharges_.erase(it);
      kind = next_report(m);
      if (!kind) return false;
    }
  }
  const std::uint8_t bit = bit_of(*kind);
  ipc::bounce::Notify notify;
  notify.request = next_request_++;
  notify.kind = *kind;
  if (*kind == ipc::bounce::Kind::delay)
    notify.will_retry_until = m.envelope().arrival + options_.lifetime;
  notify.permit = options_.new_permit();
  ReportAsked asked{m.number, notify.permit, notify.kind, {}};
  std::size_t bytes = 0;
  for (const auto& [ordinal, n] : m.notes) {
    if ((n.owed & bit) == 0) continue;
    bytes += size_in_report(m.envelope().recipients[ordinal], n.status);
    // The rest stays owed, and is told in another when this one is made.
    if (bytes > kReportBytes && !notify.recipients.empty()) break;
    asked.ordinals.add(ordinal);
    notify.recipients.push_back({ordinal, m.envelope().recipients[ordinal], n.status, n.when});
    // confirm_delay_cleared: told that it is late, the sender is told that it is not, whatever NOTIFY says of success.
    if (*kind == ipc::bounce::Kind::success)
      notify.recipients.back().recipient.notify |= mail::notify::kSuccess;
  }
  notify.envelope = m.envelope();
  notify.envelope.recipients.clear();
  const auto body = active_.body_of(m);
  if (!body) {
    m.report_refused = true;
    return false;
  }
  notify.inline_body = *body;
  async::Fd fd;
  if (m.spool_file != 0) {
    auto opened = ports_.open_body(m.spool_file, m.id());
    if (!opened) {
      log::error("{}: cannot open the message's content for a report: {}", m.id(),
                 opened.error().message());
      m.report_refused = true;
      return false;
    }
    fd = std::move(*opened);
    notify.body_offset = m.spool_offset;
  }
  m.reporting = true;
  reports_asked_[notify.request] = std::move(asked);
  ports_.notify(notify, std::move(fd));
  return true;
}

void Manager::notified(const ipc::bounce::Notified& answer) {
  const Turn turn(turns_);
  const auto it = reports_asked_.find(answer.request);
  if (it == reports_asked_.end()) return;
  const ReportAsked asked = std::move(it->second);
  Active* m = active_.find(asked.message);
  reports_asked_.erase(it);
  if (m == nullptr) return;
  m->reporting = false;
  if (answer.done) {
    ++figures_.bounced;
    told(*m, asked.ordinals, asked.kind);
  } else {
    log::warning("{}: the report to <{}> could not be made: {}", m->id(), m->envelope().sender,
                 answer.text);
    m->report_refused = true;
  }
  to_conclude_.push_back(m->number);
}

void Manager::give_up_reports(Active& m) {
  const auto patience = std::max(options_.bounce_lifetime, options_.backoff_max);
  std::size_t given_up = 0;
  for (auto& [ordinal, n] : m.notes) {
    if (n.owed == 0 || now() - n.when < patience) continue;
    n.owed = 0;
    ++given_up;
  }
  if (given_up > 0)
    log::error(
        "{}: from=<{}>, the report on {} recipients could not be made for too long, given up",
        m.id(), m.envelope().sender, given_up);
}

bool Manager::may_discharge(const mail::Discharge& d, std::uint64_t permit) const {
  return permit != 0 &&
         std::any_of(reports_asked_.begin(), reports_asked_.end(), [&](const auto& r) {
           const ReportAsked& asked = r.second;
           if (asked.permit != permit || d.kind != static_cast<std::uint8_t>(asked.kind))
             return false;
           const Active* m = active_.find(d.queue_id);
           return m != nullptr && m->number == asked.message &&
                  std::all_of(d.ordinals.begin(), d.ordinals.end(),
                              [&](std::uint32_t o) { return asked.ordinals.contains(o); });
         });
}

void Manager::discharge(const mail::Discharge& d) {
  // The notification is durable: its report is no longer owed, whatever becomes of the program that made it.
  Active* found = active_.find(d.queue_id);
  if (found == nullptr) return;
  Active& m = *found;
  queue_log::OrdinalSet ordinals;
  for (const std::uint32_t ordinal : d.ordinals) ordinals.add(ordinal);
  told(m, ordinals, static_cast<ipc::bounce::Kind>(d.kind));
  if (!m.remaining.empty() || m.owes()) {
    // What is left goes to a retry log, which is synced later than the notification's own deliveries: say it here, in
    // the journal, before they begin. Without space the price is a second notice after a crash.
    active_.renew(m);
  }
  if (m.owes() || !m.reporting) return;
  m.reporting = false;
  std::erase_if(reports_asked_, [&](const auto& r) { return r.second.message == m.number; });
  ++figures_.bounced;
  to_conclude_.push_back(m.number);
}

void Manager::find_discharges() {
  if (recovered_reports_.empty() || log_.recovery() != queue_log::Recovery::done) return;
  if (!discharges_known_) {
    if (!discharge_scan_) discharge_scan_ = log_.scan();
    auto some = discharge_scan_->step(100);
    if (!some) ports_.fatal(some.error());
    for (const auto& l : *some) {
      // Notices come from the null sender, those about notices from double_bounce_sender.
      if ((!l.sender.empty() && !iequals(l.sender, options_.double_bounce_sender)) ||
          known_discharges_.size() >= kMaxKnownDischarges)
        continue;
      auto stored = log_.read(l.place);
      if (!stored) continue;
      const auto notice = from_log(*std::move(stored));
      if (!notice) continue;
      for (const auto& d : notice->envelope().discharges)
        known_discharges_[d.queue_id].push_back(d);
    }
    if (!discharge_scan_->done()) return;
    discharge_scan_.reset();
    discharges_known_ = true;
  }
  for (const MessageNumber n : std::exchange(recovered_reports_, {})) {
    if (Active* m = active_.find(n)) {
      m->reporting = false;
      to_conclude_.push_back(n);
    }
  }
}

void Manager::bounce_lost() {
  const Turn turn(turns_);
  if (reports_asked_.empty()) return;
  ports_.readers_lost();
  std::vector<MessageNumber> lost;
  for (const auto& [request, asked] : reports_asked_) lost.push_back(asked.message);
  std::sort(lost.begin(), lost.end());
  reports_asked_.clear();
  reports_waiting_.insert(reports_waiting_.end(), lost.begin(), lost.end());
  // as paced as master's restarts
  report_again_ = std::min(report_again_, clock_.now() + seconds(5));
}

void Manager::bounce_ready() {
  const Turn turn(turns_);
  bounce_lost();
  if (!reports_waiting_.empty()) report_again_ = clock_.now();
}

void Manager::bounce_unavailable(const std::string& why) {
  const Turn turn(turns_);
  std::vector<std::uint64_t> requests;
  for (const auto& [request, asked] : reports_asked_) requests.push_back(request);
  std::sort(requests.begin(), requests.end());
  for (const std::uint64_t request : requests) notified({request, false, {}, why});
}

}  // namespace pen::qmgr
