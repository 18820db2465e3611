/// Transcripts of sessions with errors, for the postmaster (notify_classes); what pentrace gets.
#include <fmt/format.h>

#include "lib/base/text.h"
#include "lib/events/emitter.h"
#include "smtpd/session.h"

namespace pen::smtpd {

async::Task<void> Session::log_dialogue() {
  const Peer peer = client_.peer;
  const auto named = co_await server_.intake.tables.ask(
      [policy = policy_, peer] { return policy->traced.matches_host(peer.name, peer.address); });
  if (!named) log::warning("debug_peer_list: {}", named.error().message());
  if (!named.value_or(false)) co_return;
  if (!transcript_) transcript_ = std::make_unique<mail::Transcript>(mail::Transcript::Side::server);
  transcript_->listen([shown = peer.shown()](bool ours, std::string_view line) {
    log::info("{} {}: {}", ours ? '>' : '<', shown, line);
  });
}

trace::Dialogue& Session::begin_trace() {
  trace_ = std::make_unique<trace::Dialogue>(*server_.trace, trace::Dialogue::Way::in,
                                             begun_ ? trace::Begin::midway : trace::Begin::start,
                                             events::session_text(client_.session));
  trace_->peer(client_.peer.address, begun_ ? std::string_view(client_.peer.name) : std::string_view());
  return *trace_;
}

void Session::trace_connect() {
  if (auto* trace = traced()) trace->mark(fmt::format("connect from [{}]:{}", client_.peer.address, client_.peer.port));
  begun_ = true;
}

/// When the name is known, and after XCLIENT.
void Session::trace_client() {
  auto* trace = traced();
  if (trace == nullptr) return;
  trace->peer(client_.peer.address, client_.peer.name);
  trace->mark("client is " + client_.peer.shown());
}

void Session::trace_handshake() {
  auto* trace = traced();
  if (trace == nullptr) return;
  if (!client_.tls) return trace->mark("TLS handshake failed");
  const SecureClient& tls = *client_.tls;
  trace->mark(fmt::format("{} with cipher {} ({} bits){}", tls.protocol, tls.cipher, tls.used_bits,
                          !tls.certificate ? ""
                          : tls.trusted    ? ", client certificate trusted"
                                           : ", client certificate not trusted"));
}

/// After content came, or its end was missed; before the transaction is forgotten.
void Session::trace_content() {
  auto* trace = traced();
  if (trace == nullptr) return;
  trace->queue_id(transaction_->queue_id());
  trace->content(transaction_->received());
}

void Session::limit_transcript() {
  if (!transcript_) return;
  if (transcript_->lines() <= static_cast<std::uint64_t>(settings().smtpd_history_flush_threshold)) return;
  tell_postmaster();
  transcript_->clear();
}

void Session::tell_postmaster() {
  if (!transcript_) return;
  const auto errors = transcript_->errors().among(policy_->told);
  if (errors.empty()) return;
  ipc::session_errors::Session session;
  session.role = ipc::session_errors::Role::smtp_server;
  session.peer = client_.peer.shown();
  session.classes = errors.bits();
  session.transcript = transcript_->text();
  session.reason = aborted_;
  server_.tell_postmaster(std::move(session));
}

}  // namespace pen::smtpd
