#include "qmgr/testing/queue_verbs.h"

#include <algorithm>

namespace pen::qmgr::scenario {

namespace {

using queue_log::kFirstRetry;
using queue_log::kHold;
using queue_log::kJournal;
using testing::FaultStorage;
using Verb = Row<QueueWorld>;

Qmgr& running(QueueWorld& w) {
  BOOST_REQUIRE_MESSAGE(w.qmgr != nullptr, "qmgr is not running: `start` comes first");
  return *w.qmgr;
}

void send(QueueWorld& w, const Arguments& a) { running(w).send(a.at(0), "sender@x.example", a.list(1)); }

/// The job in hand with this message's recipients.
void answer(QueueWorld& w, const Arguments& a) {
  auto& jobs = running(w).in_hand;
  const auto job =
      std::find_if(jobs.begin(), jobs.end(), [&a](const ipc::delivery::Job& j) { return j.queue_id == a.at(0); });
  BOOST_REQUIRE_MESSAGE(job != jobs.end(), "no job of " << a.at(0) << " is in hand");
  const ipc::delivery::Job done = *job;
  jobs.erase(job);
  running(w).answer(done);
}

/// Everything happens at its own moment.
void advance(QueueWorld& w, const Arguments& a) {
  Qmgr& qmgr = running(w);
  const Clock& clock = w.outside.clock;
  const SteadyTime until = clock.now() + a.duration(0);
  while (clock.now() < until) qmgr.advance(std::min(qmgr.manager_->wake_at(), until) - clock.now());
}

void order(QueueWorld& w, const Arguments& a) {
  static const std::map<std::string, ipc::queue::Verb> kOrders = {
      {"hold", ipc::queue::Verb::hold},       {"release", ipc::queue::Verb::release},
      {"delete", ipc::queue::Verb::remove},   {"flush", ipc::queue::Verb::flush},
      {"flush_set", ipc::queue::Verb::flush}, {"requeue", ipc::queue::Verb::requeue},
      {"expire", ipc::queue::Verb::expire}};
  const auto verb = kOrders.find(a.at(0));
  BOOST_REQUIRE_MESSAGE(verb != kOrders.end(), "no such order: " << a.at(0));
  const auto at = running(w).where(a.at(1));
  BOOST_REQUIRE_MESSAGE(at.has_value(), a.at(1) << " is not in the queue");
  const auto outcome = std::make_shared<std::optional<ipc::queue::Outcome>>();
  w.qmgr->manager_->event()->orders.give(
      *at, verb->second, [outcome](ipc::queue::Outcome o) { *outcome = o; }, {}, a.at(0) != "flush_set");
  w.qmgr->run();
  const bool obeyed = *outcome == ipc::queue::Outcome::ok;
  const bool awaited = !outcome->has_value();  // of a message with a delivery under way
  const std::string wanted = a.rest(2, "obeyed");
  BOOST_TEST((awaited ? "waits" : obeyed ? "obeyed" : "refused") == wanted);
}

void power_cut(QueueWorld& w, const Arguments& a) {
  static const std::map<std::string, FaultStorage::Cut> kCuts = {
      {"nothing", FaultStorage::Cut::none}, {"everything", FaultStorage::Cut::all}, {"some", FaultStorage::Cut::torn}};
  const auto cut = kCuts.find(a.at(0));
  BOOST_REQUIRE_MESSAGE(cut != kCuts.end(), "what was written back: nothing, everything or some");
  w.kill(cut->second);
}

constexpr Verb kVerbs[] = {
    {"arrive", "MSG ADDRESS …", "a message comes, is committed and acknowledged, and goes as far as it can at once",
     [](QueueWorld& w, const Arguments& a) {
       send(w, a);
       w.qmgr->run();
       BOOST_TEST(w.outside.acknowledged.contains(a.at(0)));
     }},
    {"arrive_later", "MSG D ADDRESS …", "the same, but it is to be sent after D only",
     [](QueueWorld& w, const Arguments& a) {
       Qmgr& qmgr = running(w);
       qmgr.later = std::chrono::duration_cast<seconds>(a.duration(1));
       qmgr.send(a.at(0), "sender@x.example", a.list(2));
       qmgr.later = seconds(0);
       qmgr.run();
       BOOST_TEST(w.outside.acknowledged.contains(a.at(0)));
     }},
    {"send", "MSG ADDRESS …", "as arrive, but nothing is written yet", send},
    {"run", "", "everything that can happen without time passing",
     [](QueueWorld& w, const Arguments&) { running(w).run(); }},
    {"advance", "D", "time passes, and what is due meanwhile happens when it is due", advance},
    {"answer", "MSG", "the host answers for what hangs of this message; nothing is written yet", answer},
    {"hosts", "answer|refuse|silent", "what happens to connections that are opened from now on",
     [](QueueWorld& w, const Arguments& a) {
       running(w).hosts_answer = a.at(0) != "refuse";
       w.qmgr->hosts_silent = a.at(0) == "silent";
     }},
    {"well", "yes|no", "whether recipients later… are taken",
     [](QueueWorld& w, const Arguments& a) { running(w).all_well = a.at(0) == "yes"; }},
    {"order", "hold|release|delete|flush|flush_set|requeue|expire MSG [obeyed|refused|waits]",
     "an administrator's order, and how it ends: waits, until the delivery under way is over; flush_set: it is one of "
     "a "
     "set, as of a site",
     order},
    {"flush", "", "everything is due",
     [](QueueWorld& w, const Arguments&) {
       running(w).manager_->flush_all();
       w.qmgr->run();
     }},
    {"kill", "", "qmgr dies; the disk has what was written",
     [](QueueWorld& w, const Arguments&) { w.kill(FaultStorage::Cut::kill); }},
    {"power_cut", "nothing|everything|some",
     "the power fails; of what was not synced nothing is on the disk, or all, or any sectors", power_cut},
    {"start", "", "qmgr starts and recovers, and everything happens that can; hosts and well are as at first",
     [](QueueWorld& w, const Arguments&) { w.start(); }},
};

constexpr Verb kExpectations[] = {
    {"delivered", "MSG ADDRESS N", "that recipient has it so often",
     [](QueueWorld& w, const Arguments& a) {
       BOOST_TEST(w.delivered(a.at(0) + " " + a.at(1)) == static_cast<int>(a.number(2)));
     }},
    {"acknowledged", "MSG yes|no", "whether its sender may forget it",
     [](QueueWorld& w, const Arguments& a) {
       BOOST_TEST(w.outside.acknowledged.contains(a.at(0)) == (a.at(1) == "yes"));
     }},
    {"log", "MSG journal|retry|hold|none", "where it is stored",
     [](QueueWorld& w, const Arguments& a) {
       const auto at = running(w).where(a.at(0));
       const std::string log = !at                            ? "none"
                               : at->place.log == kJournal    ? "journal"
                               : at->place.log == kHold       ? "hold"
                               : at->place.log >= kFirstRetry ? "retry"
                                                              : "?";
       BOOST_TEST(log == a.at(1));
     }},
    {"active", "N", "messages that are worked on",
     [](QueueWorld& w, const Arguments& a) { BOOST_TEST(running(w).manager_->figures().active == a.number(0)); }},
    {"queued", "N", "messages that are stored, in whatever log",
     [](QueueWorld& w, const Arguments& a) { BOOST_TEST(running(w).listed() == a.number(0)); }},
    {"notices", "N", "reports that were made so far",
     [](QueueWorld& w, const Arguments& a) { BOOST_TEST(w.outside.notices.size() == a.number(0)); }},
    {"notice", "WORDS", "one of them is so: `failure MSG: ADDRESS …`; the others begin with delay, success",
     [](QueueWorld& w, const Arguments& a) {
       BOOST_TEST(std::count(w.outside.notices.begin(), w.outside.notices.end(), a.rest(0)) == 1);
     }},
};

constexpr Verb kExpect[] = {
    {"expect", "WHAT …", "what is to be so; see below",
     [](QueueWorld& w, const Arguments& a) {
       row_named(std::span<const Verb>(kExpectations), a.at(0), "expectation").perform(w, a.behind_first());
     }},
};

}  // namespace

void perform(QueueWorld& world, const Statement& s) {
  const bool expects = s.verb == kExpect[0].name;
  row_named(expects ? std::span<const Verb>(kExpect) : std::span<const Verb>(kVerbs), s.verb, "verb")
      .perform(world, s.arguments);
}

std::string queue_language_page() {
  return "# Scenarios of the queue manager\n\n"
         "Each `.scn` file is a test of manager, scheduler and queue log together, in virtual time and over memory\n"
         "storage: `ctest -R queue_scenario_NAME`. MSG is a queue id. A recipient's local part says how it fares: "
         "`ok…`\n"
         "is delivered, `no…` refused, `later…` deferred, `hang…` has no answer until `answer`, `ours…` meets a fault "
         "of\nthe delivery program, `nowhere…` has no route. This page is made from the tables in `qmgr/testing` "
         "(target\n`scenario_page_update`).\n\n## Statements\n\n" +
         page_table(std::span<const Verb>(kVerbs)) +
         page_line({}, kExpect[0].name, kExpect[0].arguments, kExpect[0].meaning) + "\n## Expectations\n\n" +
         page_table(std::span<const Verb>(kExpectations), "expect ");
}

}  // namespace pen::qmgr::scenario
