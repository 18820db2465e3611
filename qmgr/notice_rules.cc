#include "qmgr/notice_rules.h"

namespace pen::qmgr {

namespace {

/// The same without reports on first tries.
std::uint8_t notices_due(const ManagerOptions& options, const Active& m, std::uint32_t ordinal,
                         const mail::DeliveryStatus& status) {
  const std::uint8_t notify = m.envelope().recipients[ordinal].notify;
  // A notice asks for none itself (RFC 3461 section 6.2); that does not bind the postmaster.
  if (status.action == mail::Action::failed && m.envelope().sender.empty())
    return options.double_bounces ? mail::notify::kFailure : 0;
  if (status.action == mail::Action::failed)
    return notify == 0 || (notify & mail::notify::kFailure) != 0 ? mail::notify::kFailure : 0;
  const auto note = m.notes.find(ordinal);
  if (options.confirm_delay_cleared && note != m.notes.end() && (note->second.owed & kWarned) != 0)
    return mail::notify::kSuccess | kWarned;
  const bool ours = status.action != mail::Action::transferred;
  return ours ? notify & mail::notify::kSuccess : 0;
}

/// Its sender is to get a notice that it waits. One that is too old, and only waits for its first try after a long
/// stop, has no time left that the notice could state.
bool late(const ManagerOptions& options, const Active& m, WallTime now) {
  if (m.waits_for_share() && now - m.envelope().due_from() >= options.lifetime) return false;
  return options.delay_warning > seconds(0) && (!m.parked || m.waits_for_share()) && !m.remaining.empty() &&
         !m.envelope().sender.empty() && now - m.envelope().due_from() >= options.delay_warning;
}

/// What the notice is to say of recipients that were never tried: without the time of a try.
void note_the_untried(Active& m) {
  const auto status = mail::make_status(mail::Action::deferred, "4.4.5",
                                        m.waits_for == Active::WaitsFor::tenant
                                            ? "as much mail of the same tenant is being sent as may be"
                                            : "as much mail that is no more urgent is being sent as may be");
  for (const auto& range : m.remaining.ranges())
    for (std::uint32_t i = range.first; i < range.end; ++i) m.notes.try_emplace(i, Note{i, status, WallTime{}});
}

}  // namespace

std::uint8_t owed_for(const ManagerOptions& options, const Active& m, std::uint32_t ordinal,
                      const mail::DeliveryStatus& status) {
  const mail::Envelope& e = m.envelope();
  const auto note = m.notes.find(ordinal);
  // The note says so where a part of the report has made the message an ordinary one.
  const bool reported =
      (e.purpose != mail::Purpose::mail && (!e.sender.empty() || e.purpose == mail::Purpose::verification)) ||
      (note != m.notes.end() && (note->second.owed & kFirstTry) != 0);
  const unsigned due = mail::is_probe(e.purpose) ? 0U : notices_due(options, m, ordinal, status);
  return static_cast<std::uint8_t>(due | (reported ? kFirstTry : 0U));
}

std::optional<ipc::bounce::Kind> next_report(const ManagerOptions& options, Active& m, WallTime now) {
  using ipc::bounce::Kind;
  std::uint8_t owed = 0;
  const bool traced = m.envelope().purpose == mail::Purpose::traced && !m.envelope().sender.empty() && !m.parked;
  for (auto& [ordinal, n] : m.notes) {
    if (traced && m.remaining.contains(ordinal)) n.owed |= kFirstTry;
    owed |= n.owed;
  }
  // Not before everybody has had his first try.
  if ((owed & kFirstTry) != 0 && !m.parked) return Kind::first_try;
  if ((owed & mail::notify::kFailure) != 0) return Kind::failure;
  if ((owed & mail::notify::kSuccess) != 0) return Kind::success;
  if (!late(options, m, now)) return std::nullopt;
  if (m.waits_for_share()) note_the_untried(m);
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

void mark_told(Active& m, const queue_log::OrdinalSet& ordinals, ipc::bounce::Kind kind) {
  for (auto& [ordinal, n] : m.notes) {
    if (!ordinals.contains(ordinal)) continue;
    n.owed = static_cast<std::uint8_t>(n.owed & ~bit_of(kind));
    if (kind == ipc::bounce::Kind::delay) n.owed |= kWarned;
  }
  if (kind == ipc::bounce::Kind::first_try) m.end_trace();
}

}  // namespace pen::qmgr
