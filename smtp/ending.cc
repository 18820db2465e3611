#include "smtp/ending.h"

#include "lib/base/text.h"

namespace pen::smtp {

void Ending::leave(Trouble why, mail::DeliveryStatus with) {
  if (over) return;
  const bool by_tls = tls_to_blame && (why == Trouble::lost || why == Trouble::timed_out);
  trouble = by_tls ? Trouble::tls : why;
  status = std::move(with);
  over = true;
}

void Ending::note_refusal(const mail::Reply& reply) {
  if ((reply.code >= 500 && reply.code < 510) || reply.code == 555) errors.add(mail::ErrorClass::protocol);
}

void Ending::protocol_error(const Peer& peer, std::string_view what, Step step, const mail::Reply& reply,
                            bool pipelining) {
  errors.add(mail::ErrorClass::protocol);
  if (pipelining) misbehaved = true;
  mail::DeliveryStatus with{mail::Action::deferred, "4.5.0", {}, "smtp; " + reply.text, peer.host};
  with.text = "protocol error: host " + peer.shown + " sent " + std::string(what) + " while " +
              std::string(doing(step)) + ": " + printable(reply.text, 200);
  last_was_421 = false;
  leave(Trouble::lost, std::move(with));
}

}  // namespace pen::smtp
