#pragma once
/// Conversation "bounce": qmgr asks for a notification; bounce makes it and enqueues it (conversation "enqueue", with
/// Envelope::discharges naming what it reports), then answers.
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/mail/delivery_status.h"
#include "lib/mail/envelope.h"

namespace pen::ipc::bounce {

inline constexpr std::string_view kName = "bounce";

/// first_try: what came of the first try at every recipient, or would come of it (mail::Purpose).
enum class Kind : std::uint8_t { failure, delay, success, first_try };

struct Reported {
  std::uint32_t ordinal = 0;
  mail::Recipient recipient;
  mail::DeliveryStatus status;
  WallTime when{};
  PEN_FIELDS(ordinal, recipient, status, when)
};
/// Carries the body's descriptor like delivery::Job when it is not inline.
struct Notify {
  std::uint64_t request = 0;
  Kind kind = Kind::failure;
  mail::Envelope envelope;  // of the message reported on; recipients left empty
  std::vector<Reported> recipients;
  WallTime will_retry_until{};  // delay notices
  std::uint64_t body_offset = 0;
  std::string_view inline_body;
  std::uint64_t permit = 0;  // for Enqueue::permit: good for this report, as long as it has no answer
  PEN_FIELDS(request, kind, envelope, recipients, will_retry_until, body_offset, inline_body, permit, envelope.tenant,
             envelope.priority, envelope.release, envelope.release_request, envelope.signer)
};
struct Notified {
  std::uint64_t request = 0;
  // queued, or rightly not made (null sender, NOTIFY=NEVER): the report is discharged
  bool done = false;
  std::string queue_id;  // of the notification, empty when none was due
  std::string text;      // why not
  PEN_FIELDS(request, done, queue_id, text)
};

using ToBounce = std::variant<Notify>;
using FromBounce = std::variant<Notified>;

}  // namespace pen::ipc::bounce
