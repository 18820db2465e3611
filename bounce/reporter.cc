#include "bounce/reporter.h"

#include "lib/base/log.h"
#include "lib/base/text.h"
#include "lib/intake/derived.h"

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
  }
  return mail::DsnKind::failure;
}

/// Postfix's words, which log readers know.
std::string_view noun(mail::DsnKind kind) {
  switch (kind) {
    case mail::DsnKind::failure:
      return "non-delivery";
    case mail::DsnKind::delay:
      return "delay";
    case mail::DsnKind::success:
      return "delivery status";
  }
  return "";
}

}  // namespace

Reporter::Reporter(intake::Intake& intake, mail::DsnSettings settings, std::string double_bounce,
                   Random& random)
    : intake_(intake),
      settings_(std::move(settings)),
      double_bounce_(std::move(double_bounce)),
      random_(random) {}

async::Task<ipc::bounce::Notified> Reporter::report(std::shared_ptr<Request> request) {
  const ipc::bounce::Notify& notify = request->notify;
  ipc::bounce::Notified answer;
  answer.request = notify.request;

  const mail::DsnKind kind = kind_of(notify.kind);
  std::vector<mail::DsnRecipient> all;
  mail::Discharge discharge{.queue_id = notify.envelope.queue_id,
                            .ordinals = {},
                            .kind = static_cast<std::uint8_t>(notify.kind)};
  for (const auto& r : notify.recipients) {
    all.push_back({r.recipient, r.status, r.when});
    discharge.ordinals.push_back(r.ordinal);
  }
  mail::DsnRequest dsn;
  dsn.kind = kind;
  dsn.original = &notify.envelope;
  dsn.recipients = mail::dsn_due(kind, notify.envelope, all);
  dsn.will_retry_until = notify.will_retry_until;
  dsn.now = intake_.loop.clock().wall_now();
  if (iequals(notify.envelope.sender, double_bounce_)) {
    log::warning("{}: undeliverable postmaster notification discarded", notify.envelope.queue_id);
    dsn.recipients.clear();
  }
  if (dsn.recipients.empty()) {
    answer.done = true;
    co_return answer;
  }

  mail::DsnReport report = mail::build_dsn(dsn, settings_, random_);
  intake::Derived derived;
  derived.envelope = std::move(report.envelope);
  derived.envelope.client.protocol = "local";
  derived.envelope.discharges.push_back(std::move(discharge));
  derived.permit = notify.permit;
  derived.before = std::move(report.before);
  derived.after = std::move(report.after);
  derived.original_bytes = report.original_bytes;
  derived.original = request->content;
  const async::Until until{.deadline = intake_.loop.now() + intake_.settings.enqueue_timeout};
  auto queue_id = co_await intake::enqueue_derived(intake_, std::move(derived), until);
  if (!queue_id) {
    answer.text = queue_id.error().context();
    log::warning("{}: cannot queue the {} notification: {}", notify.envelope.queue_id, noun(kind),
                 answer.text);
    co_return answer;
  }
  answer.done = true;
  answer.queue_id = *std::move(queue_id);
  log::info("{}: sender {} notification: {}", notify.envelope.queue_id, noun(kind),
            answer.queue_id);
  co_return answer;
}

}  // namespace pen::bounce
