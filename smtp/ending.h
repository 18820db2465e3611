#pragma once
/// How a conversation ends, and what was wrong with it. Handshake and Pipeline note here what they see; the first
/// reason to leave is the one that counts.
///
/// Pure. Thread: the engine's.
#include <string_view>

#include "lib/mail/error_class.h"
#include "lib/suite/ipc/delivery.h"
#include "smtp/peer.h"

namespace pen::smtp {

using ipc::delivery::Trouble;

struct Ending {
  bool over = false;  // nothing more is to be done with the peer
  Trouble trouble = Trouble::none;
  mail::DeliveryStatus status;

  /// Errors that the postmaster may want to know: replies out of step, commands (not mail) refused with 500-509 or
  /// 555, and content that could not be read.
  mail::ErrorClasses errors;
  bool misbehaved = false;    // replies did not fit what was sent ahead
  bool last_was_421 = false;  // the last reply: commands behind it were not executed
  /// STARTTLS was said, and neither declined nor followed by a successful EHLO: an end that the peer causes is then
  /// the fault of TLS.
  bool tls_to_blame = false;

  void leave(Trouble why, mail::DeliveryStatus with);
  /// pipelining: the peer is sent commands ahead, and may not be able to cope with that.
  void protocol_error(const Peer& peer, std::string_view what, Step step, const mail::Reply& reply, bool pipelining);
  /// Notes a refusal that was for the command rather than for the mail.
  void note_refusal(const mail::Reply& reply);
};

}  // namespace pen::smtp
