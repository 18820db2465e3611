#pragma once
/// The filters of one session, in the order of the list: events go to each, their verdicts become one, and what they
/// change in a message is made once.
///
/// Use:     Chain chain(tools, settings, filters, endpoints, macros);
///          Verdict v = co_await chain.connect("client.example", "192.0.2.1", 25);   // helo(), mail(), rcpt(), data()
///          if (auto held = co_await message.hold_content(until); held.outcome == ok)
///            Judged j = co_await chain.content(message, front, until);
///          chain.abort();  co_await chain.quit();
/// Order:   RCPT goes to one filter after the other, since a recipient that one refuses does not exist for those behind
///          it. Everything else goes to all at once; of several refusals the first in the list counts. At the end of a
///          message a filter that changes something waits for those before it that do; one that only reads waits for
///          them too, and nobody waits for it but the verdict.
/// Source:  Postfix MILTER_README, cleanup_milter.c for what changes mean; docs/milter.md.
/// Thread:  the loop's.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/receive/intake/intake.h"
#include "lib/receive/milter/client.h"

namespace pen::milter {

class Chain {
 public:
  Chain(const Tools& tools, std::shared_ptr<const Settings> settings, const Filters& filters, Endpoints& endpoints,
        const MacroSource& macros);

  bool empty() const { return clients_.empty(); }
  /// address: numeric; anything else: it is not known.
  async::Task<Verdict> connect(std::string_view name, std::string_view address, std::uint16_t port);
  async::Task<Verdict> helo(std::string_view name);
  /// sender: without <>. parameters: as given, split at blanks.
  async::Task<Verdict> mail(std::string_view sender, std::string_view parameters, const MacroSource& macros);
  async::Task<Verdict> rcpt(std::string_view recipient, std::string_view parameters, const MacroSource& macros);
  /// A recipient that was refused without the filters, for those that want to hear of it.
  async::Task<void> refused_rcpt(std::string_view recipient, std::string_view parameters, const MacroSource& macros);
  async::Task<Verdict> data(const MacroSource& macros);
  async::Task<Verdict> unknown(std::string_view line);

  struct Judged {
    Verdict verdict;
    intake::Commit commit{intake::Outcome::ok, {}};  // of the changed content, if it is not refused
    std::vector<std::string> notes;                  // what changes were left out, for the log
  };
  /// The end of a message whose content is held. Changes content, envelope and effects of the message. front: as of
  /// Draft::of().
  async::Task<Judged> content(intake::Message& message, std::uint64_t front, const intake::Intake& intake,
                              const MacroSource& macros, async::Until until);

  void abort();
  async::Task<void> quit();

 private:
  struct Turn;
  async::Task<Verdict> ask(Stage stage, std::string data, const MacroSource& macros);
  static async::Task<void> ask_aside(Client* client, Stage stage, const std::string* data, const MacroSource* macros,
                                     Verdict* out);

  const Tools& tools_;
  std::shared_ptr<const Settings> settings_;
  Endpoints& endpoints_;
  const MacroSource& session_macros_;
  SessionFacts facts_;
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace pen::milter
