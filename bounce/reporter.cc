#include "bounce/reporter.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/receive/intake/derived.h"

namespace pen::bounce {
namespace {

mail::DsnKind kind_of(ipc::bounce::Kind kind) {
  switch (kind) {
    case ipc::bounce::Kind::failure:
      return mail::DsnKind::failure;
    case ipc::bounce::Kind::delay:
      return mail::DsnKind::delay;
    case ipc::bounce::Kind::success:
      return mail::DsnKind::success;
    case ipc::bounce::Kind::first_try:
      return mail::DsnKind::verify;
  }
  return mail::DsnKind::failure;
}

/// The name of a notice in the log, as Postfix words it for log readers.
std::string_view noun(mail::DsnKind kind) {
  switch (kind) {
    case mail::DsnKind::failure:
      return "non-delivery";
    case mail::DsnKind::delay:
      return "delay";
    case mail::DsnKind::success:
    case mail::DsnKind::verify:
      return "delivery status";
  }
  return "";
}

}  // namespace

bool CopiesMade::has(const ipc::bounce::Notify& notify) const {
  const auto found = made_.find(key(notify));
  return found != made_.end() && std::ranges::all_of(notify.recipients, [&](const auto& r) {
           return std::ranges::binary_search(found->second, r.ordinal);
         });
}

void CopiesMade::add(const ipc::bounce::Notify& notify) {
  forget(notify);
  std::vector<std::uint32_t> ordinals;
  ordinals.reserve(notify.recipients.size());
  for (const auto& r : notify.recipients) ordinals.push_back(r.ordinal);
  std::ranges::sort(ordinals);
  const std::size_t more = cost(ordinals);
  if (more > limit_) return;
  // Any entry may go: forgetting one costs a second copy and nothing else.
  while (held_ + more > limit_) drop(made_.begin());
  held_ += more;
  made_.emplace(key(notify), std::move(ordinals));
}

void CopiesMade::forget(const ipc::bounce::Notify& notify) {
  if (const auto found = made_.find(key(notify)); found != made_.end()) drop(found);
}

void CopiesMade::drop(Made::iterator which) {
  held_ -= cost(which->second);
  made_.erase(which);
}

std::size_t CopiesMade::cost(const std::vector<std::uint32_t>& ordinals) {
  constexpr std::size_t kEntry = 200;  // key, node and allocations
  return kEntry + ordinals.size() * sizeof(std::uint32_t);
}

CopiesMade::Key CopiesMade::key(const ipc::bounce::Notify& notify) { return {notify.envelope.queue_id, notify.kind}; }

Reporter::Reporter(intake::Intake& intake, mail::DsnSettings settings, std::string double_bounce,
                   PostmasterCopies copies, intake::OwnMail own, Random& random)
    : intake_(intake),
      settings_(std::move(settings)),
      double_bounce_(std::move(double_bounce)),
      copies_(std::move(copies)),
      own_(own),
      random_(random) {}

mail::DsnRequest Reporter::describe(const Request& request, bool failing_notice) const {
  const ipc::bounce::Notify& notify = request.notify;
  mail::DsnRequest dsn;
  dsn.kind = kind_of(notify.kind);
  dsn.original = &notify.envelope;
  for (const auto& r : notify.recipients) dsn.recipients.push_back({r.recipient, r.status, r.when});
  dsn.will_retry_until = notify.will_retry_until;
  dsn.now = intake_.loop.clock().wall_now();
  if (failing_notice) {
    dsn.postmaster = copies_.failing_notices;
    dsn.postmaster_from = double_bounce_;
    // Mail to double_bounce_sender is about such a notice: another notice would loop for ever.
    std::erase_if(dsn.recipients, [this](const mail::DsnRecipient& r) {
      return iequals(r.recipient.address, double_bounce_) || iequals(r.recipient.shown_original(), double_bounce_);
    });
  } else {
    dsn.recipients = mail::dsn_due(dsn.kind, notify.envelope, dsn.recipients);
  }
  return dsn;
}

async::Task<Result<std::string>> Reporter::queue(std::shared_ptr<Request> request, mail::DsnRequest dsn,
                                                 std::vector<mail::Discharge> discharges) {
  mail::DsnReport report = mail::build_dsn(dsn, settings_, random_);
  intake::Derived derived;
  derived.envelope = std::move(report.envelope);
  // What a tenant's mail comes back with is his as well: a flood that fails is one of notices, too.
  derived.envelope.tenant = request->notify.envelope.tenant;
  derived.envelope.priority = request->notify.envelope.priority;  // RFC 6710
  derived.envelope.client.protocol = "local";
  // A failure of this notice is recognised by exactly this sender, whatever the maps say of the address.
  derived.keep_sender = !dsn.postmaster.empty();
  derived.permit = discharges.empty() ? 0 : request->notify.permit;
  derived.envelope.discharges = std::move(discharges);
  derived.before = std::move(report.before);
  derived.after = std::move(report.after);
  derived.original_bytes = report.original_bytes;
  derived.original = request->content;
  derived.own = own_;
  const async::Until until{.deadline = intake_.loop.now() + intake_.settings.enqueue_timeout};
  co_return co_await intake::enqueue_derived(intake_, std::move(derived), until);
}

async::Task<ipc::bounce::Notified> Reporter::report(std::shared_ptr<Request> request) {
  const ipc::bounce::Notify& notify = request->notify;
  const std::string& id = notify.envelope.queue_id;
  ipc::bounce::Notified answer;
  answer.request = notify.request;
  if (iequals(notify.envelope.sender, double_bounce_)) {
    // A delay is not a loss: no notice is sent, and nothing is logged.
    if (notify.kind == ipc::bounce::Kind::failure)
      log::warning("{}: undeliverable postmaster notification discarded", id);
    answer.done = true;
    co_return answer;
  }
  const bool failing_notice =
      notify.envelope.sender.empty() && notify.kind == ipc::bounce::Kind::failure && !copies_.failing_notices.empty();
  const mail::DsnRequest dsn = describe(*request, failing_notice);
  if (dsn.recipients.empty()) {
    if (failing_notice) log::warning("{}: undeliverable postmaster notification discarded", id);
    answer.done = true;
    co_return answer;
  }
  const std::string_view what = noun(dsn.kind);
  std::string_view to = failing_notice ? "postmaster" : "sender";

  static const std::string kNobody;
  const std::string& copy_to = dsn.kind == mail::DsnKind::failure ? copies_.failures
                               : dsn.kind == mail::DsnKind::delay ? copies_.delays
                                                                  : kNobody;
  Result<std::string> queued = std::string();
  if (!failing_notice && !copy_to.empty() && !copies_made_.has(notify)) {
    mail::DsnRequest copy = dsn;
    copy.postmaster = copy_to;
    copy.postmaster_from = double_bounce_;
    copy.headers_only = true;
    queued = co_await queue(request, std::move(copy), {});
    if (queued) {
      log::info("{}: postmaster {} notification: {}", id, what, *queued);
      copies_made_.add(notify);
    } else {
      to = "postmaster";
    }
  }
  if (queued) {
    mail::Discharge discharge{.queue_id = id, .ordinals = {}, .kind = static_cast<std::uint8_t>(notify.kind)};
    for (const auto& r : notify.recipients) discharge.ordinals.push_back(r.ordinal);
    std::vector<mail::Discharge> discharges;
    discharges.push_back(std::move(discharge));
    queued = co_await queue(request, dsn, std::move(discharges));
  }
  if (!queued) {
    answer.text = queued.error().context();
    log::warning("{}: cannot queue the {} {} notification: {}", id, to, what, answer.text);
    co_return answer;
  }
  copies_made_.forget(notify);
  answer.done = true;
  answer.queue_id = *std::move(queued);
  log::info("{}: {} {} notification: {}", id, to, what, answer.queue_id);
  co_return answer;
}

}  // namespace pen::bounce
