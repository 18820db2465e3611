#pragma once
/// A new message made from a stored one: a notice that returns it, or mail that an alias forwards.
///
/// Use:     Derived d; d.envelope.sender = …; d.envelope.recipients = …; d.original = …;
///          Result<std::string> queue_id = co_await enqueue_derived(intake, std::move(d), until);
/// Content: Received: (by Message), `fields`, `before`, the first original_bytes of the original, `after`.
/// Promise: a queue id means that the message is on stable storage. After an error that is not known: try again later.
/// Memory:  as for an incoming message: at most Body::kDrainAt at a time.
/// The intake's message_size_limit should be 0: a message that was accepted once must not be refused because of our
/// additions.
#include <functional>
#include <string>

#include "lib/receive/intake/intake.h"
#include "lib/suite/ipc/content.h"

namespace pen::intake {

/// Shows a message to filters (milters) when its content has come; after anything but ok it is not committed.
using Judge = std::function<async::Task<Commit>(Message& message, async::Until until)>;

/// How mail that the system makes itself is treated, by its class and the settings of classes.
struct OwnMail {
  bool inspected = false;        // Message::made_here()
  bool detect_smtputf8 = false;  // beside Settings::detect_smtputf8
  Judge filters = {};            // of mail that is inspected; empty: there are none
};

struct Derived {
  // queue_id and body facts are filled in; so is arrival, but for one with a queue_id of its own, which has the same
  // arrival each time it is made
  mail::Envelope envelope;
  // "": a new one. With a given id, a message that is known already is not queued again, and that counts as success.
  std::string queue_id;
  std::string fields;  // whole header fields, CRLF after each
  std::string before;  // CRLF lines
  ipc::Content original;
  std::uint64_t original_bytes = 0;
  std::string after;
  std::uint64_t permit = 0;  // Message::permit()
  bool keep_sender = false;  // Message::keep_sender()
  OwnMail own = {};
};

async::Task<Result<std::string>> enqueue_derived(Intake& intake, Derived derived, async::Until until);

}  // namespace pen::intake
