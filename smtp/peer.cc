#include "smtp/peer.h"

namespace pen::smtp {

std::string_view doing(Step step) {
  switch (step) {
    case Step::greeting:
      return "receiving the initial server greeting";
    case Step::ehlo:
      return "performing the EHLO handshake";
    case Step::helo:
      return "performing the HELO handshake";
    case Step::lhlo:
      return "performing the LHLO handshake";
    case Step::starttls:
      return "starting TLS";
    case Step::auth:
      return "performing the AUTH handshake";
    case Step::rset:
      return "sending RSET";
    case Step::xforward:
      return "sending XFORWARD";
    case Step::mail:
      return "sending MAIL FROM";
    case Step::rcpt:
      return "sending RCPT TO";
    case Step::data:
      return "sending DATA command";
    case Step::content:
      return "sending message body";
    case Step::end_of_data:
    case Step::bdat:
      return "sending end of data -- message may be sent more than once";
    case Step::quit:
      return "sending QUIT";
  }
  return "talking";
}

std::string soft(std::string dsn) {
  if (!dsn.empty()) dsn[0] = '4';
  return dsn;
}

mail::DeliveryStatus Peer::said(const mail::Reply& reply, std::string_view command, bool treat_552_as_452) const {
  mail::DeliveryStatus status;
  const bool hard = reply.permanent() && !(treat_552_as_452 && reply.code == 552);
  status.action = hard ? mail::Action::failed : mail::Action::deferred;
  status.dsn = hard ? reply.dsn_or_default() : soft(reply.dsn_or_default());
  status.text = "host " + shown + " said: " + reply.text;
  if (!command.empty()) {
    status.text += " (in reply to ";
    status.text += command;
    status.text += ')';
  }
  status.diagnostic = "smtp; " + reply.text;
  status.remote_mta = host;
  return status;
}

mail::DeliveryStatus Peer::refused_to_talk(const mail::Reply& reply) const {
  mail::DeliveryStatus status = said(reply);
  status.text = "host " + shown + " refused to talk to me: " + reply.text;
  return status;
}

mail::DeliveryStatus Peer::took(const mail::Reply& reply) const {
  return {mail::Action::delivered, reply.positive() ? reply.dsn_or_default() : "2.0.0", reply.text,
          "smtp; " + reply.text, host};
}

mail::DeliveryStatus Peer::lost(End how, std::string_view doing_what) const {
  mail::DeliveryStatus status{mail::Action::deferred, "4.4.2", {}, {}, {}};
  if (how == End::content_error) {
    status.dsn = "4.3.0";
    status.text = "local error reading the message content";
    return status;
  }
  status.text = how == End::timed_out ? "conversation with " + shown + " timed out while "
                                      : "lost connection with " + shown + " while ";
  status.text += doing_what;
  return status;
}

}  // namespace pen::smtp
