#include "lib/receive/milter/chain.h"

#include "lib/base/text.h"
#include "lib/receive/milter/edits.h"

namespace pen::milter {
namespace {

std::string path_data(std::string_view address, std::string_view parameters) {
  std::string out = c_string("<" + std::string(address) + ">");
  for (const auto word : split(parameters, " \t")) out += c_string(word);
  return out;
}

/// The first of the list that refuses or discards decides; holds add up.
Verdict join(std::vector<Verdict> verdicts) {
  Verdict out;
  for (Verdict& v : verdicts) {
    if (v.hold && !out.hold) {
      out.hold = true;
      out.hold_reason = std::move(v.hold_reason);
    }
    if (!v.refused() && !v.discard) continue;
    out.reply = std::move(v.reply);
    out.discard = v.discard;
    out.by_default = v.by_default;
    out.told = v.told;
    break;
  }
  return out;
}

}  // namespace

Chain::Chain(const Tools& tools, std::shared_ptr<const Settings> settings, const Filters& filters, Endpoints& endpoints,
             const MacroSource& macros)
    : tools_(tools), settings_(std::move(settings)), endpoints_(endpoints), session_macros_(macros) {
  facts_.macros = &session_macros_;
  for (const auto& filter : filters) {
    clients_.push_back(std::make_unique<Client>(tools_, *settings_, filter, endpoints_));
    clients_.back()->session(&facts_);
  }
}

async::Task<void> Chain::ask_aside(Client* client, Stage stage, const std::string* data, const MacroSource* macros,
                                   Verdict* out) {
  *out = co_await client->event(stage, *data, *macros);
}

async::Task<Verdict> Chain::ask(Stage stage, std::string data, const MacroSource& macros) {
  std::vector<Verdict> verdicts(clients_.size());
  std::size_t waiting = 0;
  for (const auto& client : clients_) waiting += client->waits(stage) ? 1 : 0;
  if (stage == Stage::rcpt || waiting < 2) {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      verdicts[i] = co_await clients_[i]->event(stage, data, macros);
      if (verdicts[i].refused() || verdicts[i].discard) break;
    }
    co_return join(std::move(verdicts));
  }
  async::Gate gate(tools_.loop);
  for (std::size_t i = 0; i < clients_.size(); ++i)
    gate.spawn("milter", ask_aside(clients_[i].get(), stage, &data, &macros, &verdicts[i]));
  (void)co_await gate.drained();  // each wait has a time limit of its own
  co_return join(std::move(verdicts));
}

async::Task<Verdict> Chain::connect(std::string_view name, std::string_view address, std::uint16_t port) {
  facts_.connect = connect_data(name, address, port);
  co_return co_await ask(Stage::connect, facts_.connect, session_macros_);
}

async::Task<Verdict> Chain::helo(std::string_view name) {
  facts_.helo = c_string(name);
  co_return co_await ask(Stage::helo, facts_.helo, session_macros_);
}

async::Task<Verdict> Chain::mail(std::string_view sender, std::string_view parameters, const MacroSource& macros) {
  return ask(Stage::mail, path_data(sender, parameters), macros);
}

async::Task<Verdict> Chain::rcpt(std::string_view recipient, std::string_view parameters, const MacroSource& macros) {
  return ask(Stage::rcpt, path_data(recipient, parameters), macros);
}

async::Task<void> Chain::refused_rcpt(std::string_view recipient, std::string_view parameters,
                                      const MacroSource& macros) {
  const std::string data = path_data(recipient, parameters);
  for (const auto& client : clients_)
    if (client->wants_rejected_recipients()) (void)co_await client->event(Stage::rcpt, data, macros);
}

async::Task<Verdict> Chain::data(const MacroSource& macros) { return ask(Stage::data, {}, macros); }

async::Task<Verdict> Chain::unknown(std::string_view line) {
  return ask(Stage::unknown, c_string(line), session_macros_);
}

/// One filter's turn with a message.
struct Chain::Turn {
  Client* client;
  Client::Answered answered;
  bool reads = false;  // beside the others

  static async::Task<void> aside(Turn* turn, std::shared_ptr<const Draft> draft, async::HandlerPool* pool,
                                 const Client::MakeBody* make_body, const MacroSource* macros) {
    turn->answered = co_await turn->client->message(draft, draft->body(*pool), *make_body, *macros);
  }
};

async::Task<Chain::Judged> Chain::content(intake::Message& message, std::uint64_t front, const intake::Intake& intake,
                                          const MacroSource& macros, async::Until until) {
  Judged out;
  auto made = co_await Draft::of(intake.pool, *message.body(), front);
  if (!made) {
    const bool large = made.error().is(MilterError::too_much);
    out.commit = large ? intake::Commit{intake::Outcome::too_large, "header"}
                       : intake::Commit{intake::Outcome::spool_failed, made.error().message()};
    co_return out;
  }
  const std::shared_ptr<const Draft> first = *std::move(made);
  std::shared_ptr<const Draft> draft = first;
  const Client::MakeBody make_body = [&] { return message.new_body(settings_->size_limit); };
  std::vector<Turn> turns;
  turns.reserve(clients_.size());
  for (const auto& client : clients_) turns.push_back({client.get(), {}, client->only_reads()});
  EnvelopeEdits envelope;
  async::Gate readers(tools_.loop);  // after what its tasks point to
  for (Turn& turn : turns) {
    if (turn.reads) {
      readers.spawn("milter", Turn::aside(&turn, draft, &intake.pool, &make_body, &macros));
      continue;
    }
    co_await Turn::aside(&turn, draft, &intake.pool, &make_body, &macros);
    Verdict& verdict = turn.answered.verdict;
    if (verdict.refused() || verdict.discard) break;
    Edited edited = edit(*draft, std::move(turn.answered), *settings_, message);
    if (edited.draft) draft = std::move(edited.draft);
    envelope.append(std::move(edited.envelope));
    verdict.reply = std::move(edited.reply);
    verdict.told = edited.told;
    verdict.discard = edited.effects.discard;
    verdict.hold = verdict.hold || edited.hold;
    if (verdict.hold_reason.empty()) verdict.hold_reason = std::move(edited.hold_reason);
    message.effects().merge(std::move(edited.effects));
    for (auto& note : edited.notes) out.notes.push_back(std::move(note));
    if (verdict.refused() || verdict.discard) break;
  }
  (void)co_await readers.drained();
  for (Turn& turn : turns) {
    if (!turn.reads) continue;
    if (const Edit* quarantine = turn.answered.quarantine()) {
      turn.answered.verdict.hold = true;
      turn.answered.verdict.hold_reason = shown_reason(*quarantine);
    }
  }
  std::vector<Verdict> verdicts;
  for (Turn& turn : turns) verdicts.push_back(std::move(turn.answered.verdict));
  out.verdict = join(std::move(verdicts));
  if (out.verdict.refused() || out.verdict.discard) co_return out;
  envelope.apply(message, out.notes);
  if (message.recipients() == 0) {
    out.notes.push_back(message.queue_id() + ": milter: no recipient is left");
    out.verdict.discard = true;
    co_return out;
  }
  if (draft != first)
    out.commit = co_await message.replace_content(draft->fields.text(), draft->body(intake.pool), until);
  co_return out;
}

void Chain::abort() {
  for (const auto& client : clients_) client->abort();
}

async::Task<void> Chain::quit() {
  for (const auto& client : clients_) co_await client->quit();
}

}  // namespace pen::milter
