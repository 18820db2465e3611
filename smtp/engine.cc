#include "smtp/engine.h"

#include "lib/base/check.h"
#include "lib/base/metrics/metrics.h"

namespace pen::smtp {

Engine::Engine(const Settings& settings, Peer peer)
    : settings_(settings),
      peer_(std::move(peer)),
      handshake_(settings_, peer_, ending_),
      pipeline_(settings_, peer_, ending_) {}

void Engine::submit(const Job* job, SteadyTime now) {
  PEN_CHECK(!finished_, "a job for an ended connection");
  pipeline_.submit(job, now);
}

std::optional<Step> Engine::awaiting() const {
  return handshake_.awaiting() && !finished_ ? handshake_.awaiting() : pipeline_.awaiting();
}

void Engine::on_line(std::string_view line, SteadyTime now) {
  if (ending_.over) return;
  if (handshake_.tls_due()) {
    handshake_.clear_text_in_tls();
    return;
  }
  parser_.keep_lines(handshake_.awaiting() == Step::ehlo || handshake_.awaiting() == Step::lhlo);
  const auto reply = parser_.feed(line);
  if (!reply) return;
  metrics::smtp_replies.add(reply->code >= 500   ? metrics::ReplyClass::permanent
                            : reply->code >= 400 ? metrics::ReplyClass::transient
                                                 : metrics::ReplyClass::positive);
  if (handshake_.awaiting())
    on_handshake_reply(*reply, now);
  else
    pipeline_.on_reply(*reply, now);
  pipeline_.report_settled(now);
}

void Engine::on_handshake_reply(const mail::Reply& reply, SteadyTime now) {
  const Step step = *handshake_.awaiting();
  if (step == Step::greeting) {
    hello_at_ = now;
  } else if (step == Step::ehlo) {
    // The handshake may have been answered by somebody nearer: a proxy, or a router that accelerates TCP.
    pipeline_.round_trip_at_least(std::chrono::ceil<microseconds>(now - hello_at_));
  }
  if (reply.malformed) {
    const bool pipelining = handshake_.offers().pipelining && settings_.pipelining;
    ending_.protocol_error(peer_, "garbage", step, reply, pipelining);
    return;
  }
  ending_.last_was_421 = reply.code == 421;
  handshake_.on_reply(reply);
  if (!handshake_.done()) return;
  pipeline_.open(
      {.offers = handshake_.offers(), .refusal = handshake_.refusal(), .optional_tls = handshake_.optional_tls()}, now);
}

std::optional<Send> Engine::next_send(SteadyTime now) {
  if (ending_.over) return std::nullopt;
  if (auto words = handshake_.take_words()) return Send{.text = std::move(words->text), .response = words->response};
  return pipeline_.next_send(now);
}

void Engine::on_time(SteadyTime now) {
  if (!ended()) pipeline_.on_time(now);
}

void Engine::tls_started(SteadyTime now) {
  if (!handshake_due()) return;
  hello_at_ = now;
  handshake_.tls_started();
}

void Engine::finish(End how, SteadyTime now) {
  PEN_CHECK(!finished_, "a connection ends once");
  pipeline_.finish(how, handshake_.awaiting(), now);
  finished_ = true;
}

}  // namespace pen::smtp
