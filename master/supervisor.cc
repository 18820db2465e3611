#include "master/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/log.h"
#include "lib/base/metrics/page.h"
#include "lib/base/text.h"
#include "lib/base/version.h"
#include "lib/suite/confine/apply.h"
#include "lib/suite/ipc/who_may_talk.h"
#include "lib/suite/service/board.h"
#include "lib/suite/service/link.h"
#include "lib/suite/service/lock.h"
#include "lib/suite/service/setup.h"
#include "master/supervised.h"

namespace pen::master {

using async::Stream;
using async::Task;

namespace {
// Of one process, in the log: one that an attacker has taken over may report without end.
constexpr unsigned kViolationsTold = 20;
// More than InForce::text() has.
constexpr std::size_t kMaxConfined = 100;
// After so many early deaths in a row the log says what can be done without the queue manager.
constexpr int kHopeless = 4;

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

/// known: what was said before.
void say_what_is_not_run(const config::Config& config, const service::Plan& plan,
                         const std::vector<service::Skipped>& known) {
  for (const config::Problem& p : config.problems()) {
    if (p.severity == config::Severity::warning && (p.file == config.master_file() || p.name == "daemon_directory"))
      log::warning("{}", p.message());
  }
  for (const service::Skipped& skipped : plan.skipped) {
    const bool is_known = std::ranges::any_of(
        known, [&](const service::Skipped& s) { return s.label == skipped.label && s.why == skipped.why; });
    if (!is_known) log::warning("service {} is not started: {}", skipped.label, skipped.why);
  }
}

}  // namespace

Supervisor::Supervisor(async::Loop& loop, int programs_lock, std::string status_path, Keeper& keeper)
    : loop_(loop),
      programs_lock_(programs_lock),
      status_path_(std::move(status_path)),
      started_at_(loop.clock().wall_now()),
      keeper_(keeper),
      sockets_(keeper),
      changed_(loop) {
  if (::geteuid() == 0) badges_.emplace(BadgeMaker::new_secret());
}
Supervisor::~Supervisor() = default;

const char* Supervisor::Service::state_word() const {
  switch (state) {
    case State::asleep:
      return "asleep";
    case State::starting:
      return "starting";
    case State::serving:
      return "serving";
    case State::paced:
      return "waiting to restart";
    case State::replacing:
      return "replacing";
    case State::stopped:
      return "stopped";
  }
  return "?";
}

void Supervisor::set_state(Service& s, State state) {
  s.state = state;
  changed_.set();
  changed_.reset();
  if (!status_timer_) {
    status_timer_ = loop_.call_at(loop_.now(), [this] {
      status_timer_.reset();
      write_status();
    });
  }
}

Result<void> Supervisor::adopt(const config::Config& config, bool keep) {
  const std::string& directory = config.settings().daemon_directory;
  service::Plan plan = service::make_plan(config, service::real_machine(directory));
  std::vector<std::string> notes;
  PEN_TRY_ASSIGN(const service::Account owner, service::mail_owner(config.settings()));
  for (const service::Planned& planned : plan.services)
    if (std::string fault = service::socket_fault(planned); !fault.empty())
      return fail_errno(planned.label + ": " + fault, ENAMETOOLONG);
  PEN_TRY(sockets_.adopt(plan.services, owner, notes));
  PEN_TRY(make_pages(plan.services));
  say_what_is_not_run(config, plan, skipped_);
  for (const std::string& note : notes) log::info("{}", note);
  skipped_ = std::move(plan.skipped);
  planned_ = plan.services;
  program_directory_ = directory;
  config_directory_ = config.directory();
  environment_ = service::program_environment(config.settings());
  stop_drain_time_ = std::chrono::ceil<seconds>(config.settings().stop_drain_time);
  patience_ = config.settings().upgrade_program_timeout;

  // Removed services finish the work in hand, and are forgotten then.
  for (auto& s : services_) {
    if (std::ranges::any_of(plan.services, [&](const service::Planned& p) { return p.label == s->plan.label; }))
      continue;
    retire(*s);
    set_state(*s, State::stopped);
  }
  std::erase_if(services_, [](const auto& s) { return s->state == State::stopped && s->processes.empty(); });
  for (service::Planned& planned : plan.services) adopt_service(std::move(planned), keep);
  return {};
}

void Supervisor::adopt_service(service::Planned planned, bool keep) {
  const auto it = std::ranges::find_if(services_, [&](const auto& s) { return s->plan.label == planned.label; });
  if (it == services_.end()) {
    services_.push_back(std::make_unique<Service>(loop_, std::move(planned)));
    return run(*services_.back(), keep);
  }
  Service& s = **it;
  // A program that serves goes on until the new one does.
  const bool goes_on = !keep && !planned.exclusive && !s.plan.exclusive && planned.program == s.plan.program &&
                       s.current() && s.current()->ready != kNever;
  if (!keep && !goes_on) retire(s);
  s.plan = std::move(planned);
  s.pace.forget();
  if (!goes_on) {
    s.runs_former = false;
    s.former_file.reset();
    return run(s, keep);
  }
  give_up_candidates(s);
  s.tasks = std::make_unique<async::Gate>(loop_);
  set_state(s, State::replacing);
  s.tasks->spawn("reload " + s.plan.label, change_over(this, &s));
  arm_wakeup(s);
}

void Supervisor::run(Service& s, bool keep) {
  arm_wakeup(s);
  if (const Process* p = keep ? s.current() : nullptr)
    return set_state(s, p->ready == kNever ? State::starting : State::serving);
  const bool old_one_lives = !s.processes.empty();
  if (!s.plan.exclusive || !old_one_lives) return sleep_or_start(s);
  for (auto& p : s.processes) {
    if (!p->kill_timer) bound_end(*p);  // the timer of a former master died with it
  }
  set_state(s, State::replacing);
}

// Of a reload that another one overtakes.
void Supervisor::give_up_candidates(Service& s) {
  for (auto& p : s.processes) {
    if (!p->candidate) continue;
    p->draining = true;
    p->signal(SIGKILL);
  }
}

bool Supervisor::Service::waits_for(const Service& other) const {
  return &other != this && other.state == State::replacing && !other.plan.exclusive &&
         ipc::may_talk(plan.program, other.plan.program) && !ipc::may_talk(other.plan.program, plan.program);
}

Task<void> Supervisor::change_over(Supervisor* self, Service* s) {
  const async::Until until{.deadline = self->loop_.now() + self->patience_};
  while (std::ranges::any_of(self->services_, [&](const auto& other) { return s->waits_for(*other); }))
    if (!co_await self->changed_.wait(until)) break;
  const std::string why = co_await self->replace_one(s, self->patience_);
  if (why.empty()) s->former_settings = false;
  if (why.empty() || self->stopping_) co_return;
  log::error("reload: service {}: {}", s->plan.label, why);
  if (!s->current()) {
    self->loop_.post([self, label = s->plan.label] { self->start_if_ended(label); });
    co_return;
  }
  s->former_settings = true;
  log::error("reload: service {}: {} goes on with the settings that it has", s->plan.label, s->plan.program);
  self->set_state(*s, State::serving);
}

// The old program ended while the new one did not come to serve.
void Supervisor::start_if_ended(const std::string& label) {
  const auto it = std::ranges::find_if(services_, [&](const auto& s) { return s->plan.label == label; });
  if (it != services_.end() && !(*it)->current() && (*it)->state == State::replacing) sleep_or_start(**it);
}

Result<void> Supervisor::make_pages(const std::vector<service::Planned>& services) {
  if (!board_) {
    PEN_TRY_ASSIGN(board_, service::create_board());
    keeper_.keep(kBoard, board_.get());
  }
  for (const service::Planned& planned : services) {
    Fd& page = pages_[planned.label];
    if (page) continue;
    PEN_TRY_ASSIGN(page, metrics::create_page(planned.label));
    page_names_[planned.label] = keeper_.name('p');
    keeper_.keep(page_names_[planned.label], page.get());
  }
  return {};
}

// Asks the serving process to finish; starts no successor.
void Supervisor::retire(Service& s) {
  s.tasks = std::make_unique<async::Gate>(loop_);
  s.start_timer.reset();
  s.wakeup_timer.reset();
  give_up_candidates(s);
  Process* p = s.current();
  if (!p) return;
  p->draining = true;
  if (s.plan.exclusive) {
    p->signal(SIGTERM);
    bound_end(*p);
  } else {
    p->status->write(service::kDrain);
  }
}

void Supervisor::bound_end(Process& p) {
  // Take the clock, not the turn's time: reading the configuration may have taken long (host names in master.cf).
  p.kill_timer = loop_.call_at(loop_.clock().now() + stop_drain_time_ + kGrace, [&p] { p.signal(SIGKILL); });
}

std::vector<Fd> Supervisor::pages_to_read() const {
  std::vector<Fd> out;
  const auto add = [&out](const std::string& what, const Fd& fd) {
    auto reader = metrics::reader_of(fd.get());
    if (!reader) log::warning("{} cannot be read: {}", what, reader.error().message());
    out.push_back(reader ? *std::move(reader) : Fd());
  };
  add("the state of services", board_);
  for (const auto& [label, page] : pages_) add("figures of " + label, page);
  std::erase_if(out, [](const Fd& fd) { return !fd; });
  return out;
}

void Supervisor::sleep_or_start(Service& s) {
  if (s.plan.at_once || s.must_serve) {
    start(s);
    return;
  }
  set_state(s, State::asleep);
  s.tasks->spawn("watch " + s.plan.label, watch(this, &s));
}

Task<void> Supervisor::watch(Supervisor* self, Service* s) {
  const std::vector<int> fds = self->sockets_.of(s->plan);
  if (fds.empty()) co_return;
  async::Readiness readiness(self->loop_, fds.front());  // Unix services have one socket
  if (!(co_await readiness.readable())) co_return;
  s->used = true;
  self->loop_.post([self, s] {
    const bool lives = std::ranges::any_of(self->services_, [&](const auto& x) { return x.get() == s; });
    if (lives && s->state == State::asleep) self->start(*s);
  });
}

void Supervisor::start(Service& s) {
  s.start_timer.reset();
  s.former_settings = false;
  s.tasks = std::make_unique<async::Gate>(loop_);  // the sockets need no watch now
  if (stopping_) return;
  if (launch_program(s)) {
    set_state(s, State::starting);
    return;
  }
  const SteadyTime again = loop_.now() + s.pace.next();
  set_state(s, State::paced);
  s.start_timer = loop_.call_at(again, [this, &s] { start(s); });
}

Fd Supervisor::introduce(const std::string& program, const service::Arguments& arguments) {
  auto running = helper_.run(
      {.path = program_directory_ + "/become", .config_directory = config_directory_, .environment = environment_});
  auto socket = running ? helper_.introduce(program, arguments) : Result<Fd>(std::unexpected(running.error()));
  if (socket) return *std::move(socket);
  log::error("{} has no helper: {}", program, socket.error().message());
  return {};
}

Fd Supervisor::badges_for(const Service& s) const {
  if (!badges_) return {};
  const bool demanded = std::ranges::all_of(services_, [](const auto& other) {
    return std::ranges::all_of(other->processes, [](const auto& p) { return p->badged; });
  });
  auto memory = ipc::to_memory(badges_->badges_for(s.plan, planned_, demanded));
  if (memory) return *std::move(memory);
  log::error("{} gets no badges: {}", s.plan.program, memory.error().message());
  return {};
}

Supervisor::Process* Supervisor::launch_program(Service& s) {
  service::Launch what;
  what.path = program_directory_ + "/" + s.plan.program;
  // By way of this process: the name of the file leads to the new program.
  if (s.runs_former) what.file = fmt::format("/proc/{}/fd/{}", ::getpid(), s.former_file.get());
  Fd file;
  // To be read, although nobody does: a service manager takes no other descriptors of files.
  if (s.plan.exclusive)
    file = s.runs_former ? Fd(::fcntl(s.former_file.get(), F_DUPFD_CLOEXEC, 0))
                         : Fd(::open(what.path.c_str(), O_RDONLY | O_CLOEXEC));
  what.sockets = sockets_.of(s.plan);
  service::Arguments arguments = s.plan.arguments;
  arguments.sockets = static_cast<int>(what.sockets.size());
  what.metrics = pages_[s.plan.label].get();
  std::vector<Fd> pages;
  if (s.plan.reads_metrics) pages = pages_to_read();
  if (s.plan.program == "qmgr" && lease_page_ >= 0) pages.emplace_back(::fcntl(lease_page_, F_DUPFD_CLOEXEC, 0));
  for (const Fd& page : pages) what.sockets.push_back(page.get());
  arguments.pages = static_cast<int>(pages.size());
  const Fd helper = introduce(s.plan.program, arguments);
  if (helper) what.sockets.push_back(helper.get());
  arguments.helped = static_cast<bool>(helper);
  // A former version's program would not know the word.
  const Fd badges = s.runs_former && upgrade_.former_unbadged ? Fd() : badges_for(s);
  if (badges) what.sockets.push_back(badges.get());
  arguments.badged = static_cast<bool>(badges);
  what.words = arguments.to_words();
  what.environment = environment_;
  const auto lock = service::share_programs_lock(programs_lock_);
  if (!lock) log::warning("{}: {}", s.plan.program, lock.error().message());
  what.programs_lock = lock ? lock->get() : programs_lock_;
  auto started = service::launch(what);
  if (!started) {
    log::error("cannot start {} for {}: {}", s.plan.program, s.plan.label, started.error().message());
    return nullptr;
  }
  auto process = std::make_unique<Process>();
  process->file = std::move(file);
  if (process->file) {
    process->file_name = keeper_.name('f');
    keeper_.keep(process->file_name, process->file.get());
  }
  process->pid = started->pid;
  process->started = loop_.now();
  process->log_round = log_round_;  // it opens the file itself, and finds the new one
  process->badged = arguments.badged;
  process->version = s.runs_former ? upgrade_.from : std::string(version());
  process->status = std::make_unique<Stream>(loop_, std::move(started->status));
  process->name = keeper_.name('s');
  if (!memory_) save_state();  // a program that is kept without a state is one that no next master could use
  // From here on it outlives master; not before, because the end of the status socket is what ends it else.
  if (keeper_.keep(process->name, process->status->fd())) process->status->write(service::kKept);
  return add_process(s, std::move(process));
}

Supervisor::Process* Supervisor::add_process(Service& s, std::unique_ptr<Process> process) {
  process->tasks = std::make_unique<async::Gate>(loop_);
  Process* p = process.get();
  s.processes.push_back(std::move(process));
  p->tasks->spawn("program " + s.plan.label, listen(this, &s, p));
  return p;
}

Task<void> Supervisor::listen(Supervisor* self, Service* s, Process* p) {
  for (;;) {
    auto word = co_await p->status->read_some(service::kMaxWord);
    if (!word) co_return;  // it dies: collect() gets the status
    self->note_words(*s, *p, *word);
    // The reason of a failure may have any word in it.
    const std::string_view words = word->substr(0, word->find(service::kFailed));
    // One packet a word; but the end of a read is not always that of a packet.
    for (std::size_t at = words.find(service::kLogged); at != std::string_view::npos;
         at = words.find(service::kLogged, at + 1)) {
      if (p->log_sent.empty()) break;  // it answers what nobody asked
      p->log_round = p->log_sent.front();
      p->log_sent.pop_front();
      self->note_log_taken();
    }
    if (!words.contains(service::kReady) || p->ready != kNever) continue;
    p->ready = self->loop_.now();
    s->why.clear();
    if (s->current() == p) {
      self->set_state(*s, State::serving);
    } else {
      self->set_state(*s, s->state);  // an upgrade waits for it
    }
  }
}

// A signal reports its end, perhaps before its last words are read.
void Supervisor::hear_last_words(Service& s, Process& p) {
  note_words(s, p, p.status->buffered());
  char text[service::kMaxWord];
  for (ssize_t n; (n = ::recv(p.status->fd(), text, sizeof text, MSG_DONTWAIT)) > 0;)
    note_words(s, p, std::string_view(text, static_cast<std::size_t>(n)));
}

// The words may stand behind others in one read.
void Supervisor::note_words(Service& s, Process& p, std::string_view words) {
  if (const auto at = words.find(service::kFailed); at != std::string_view::npos) {  // its reason is in the log
    s.why = printable(words.substr(at + service::kFailed.size()), service::kMaxWord);
    words = words.substr(0, at);
  }
  if (const auto at = words.find(service::kConfined); at != std::string_view::npos && p.ready == kNever) {
    const std::string_view rest = words.substr(at + service::kConfined.size());
    p.confined = printable(rest.substr(0, rest.find(service::kReady)), kMaxConfined);
  }
  const auto at = words.find(confine::kViolation);
  if (at == std::string_view::npos || p.violations++ >= kViolationsTold) return;
  // A program that an attacker has taken over may write anything there; its own handler writes a name and a number.
  const auto told = confine::told_violation(words.substr(at));
  log::warning("service {}: {} pid {} made a system call that it must not make: {}", s.plan.label, s.plan.program,
               p.pid, told ? *told : "what it tells of it is no system call");
}

void Supervisor::collect() {
  for (auto& s : services_) {
    for (std::size_t i = 0; i < s->processes.size();) {
      int status = 0;
      const Process& p = *s->processes[i];
      if (!p.orphan && ::waitpid(p.pid, &status, WNOHANG) == p.pid) {
        ended(*s, i, status);
      } else {
        ++i;
      }
    }
  }
  reap_strangers();
  std::erase_if(services_,
                [this](const auto& s) { return !stopping_ && s->state == State::stopped && s->processes.empty(); });
}

void Supervisor::reap_strangers() {
  if (::getpid() != 1 || upgrade_.under_way) return;  // the successor that is asked is waited for there
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    // One of ours that has just ended has a signal of its own under way.
    if (std::ranges::any_of(services_, [&](const auto& s) { return s->of(info.si_pid) != nullptr; })) return;
    ::waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void Supervisor::ended(Service& s, std::size_t index, int wait_status) {
  const std::unique_ptr<Process> p = std::move(s.processes[index]);
  s.processes.erase(s.processes.begin() + static_cast<std::ptrdiff_t>(index));
  hear_last_words(s, *p);
  keeper_.forget(p->name);
  if (p->file) keeper_.forget(p->file_name);
  const bool asked = p->draining || stopping_;
  const bool clean = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0;
  // How an orphan ended only its parent could say.
  s.last_end = fmt::format("pid {} {}", p->pid, p->orphan ? "ended" : how_it_ended(wait_status));
  note_log_taken();
  // One that was asked to end before it could hear that is gone as it should.
  const bool unheard = asked && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGTERM;
  if (!clean && !unheard) {
    log::warning("process {}/{} pid {} {}", program_directory_, s.plan.program, p->pid, how_it_ended(wait_status));
  }
  if (p->candidate) {  // the one that it was to replace is there
    set_state(s, s.state);
    return;
  }
  if (stopping_ || s.state == State::stopped) {
    set_state(s, s.processes.empty() ? State::stopped : s.state);
    return;
  }
  if (s.state == State::replacing) {
    if (s.processes.empty()) sleep_or_start(s);
    return;
  }
  if (asked) {
    set_state(s, s.state);
    return;
  }
  ++s.restarts;
  const milliseconds pause = s.pace.next(p->ready == kNever ? std::chrono::nanoseconds(0) : loop_.now() - p->ready);
  if (pause.count() == 0) {
    if (clean || !s.plan.at_once) {
      sleep_or_start(s);
    } else {
      start(s);
    }
    return;
  }
  log::warning("service {}: {} dies early ({} times): next start in {} s", s.plan.label, s.plan.program,
               s.pace.early_ends(), std::chrono::ceil<seconds>(pause).count());
  if (s.plan.program == "qmgr" && s.pace.early_ends() == kHopeless) {
    log::warning(
        "service {}: if the lines above do not say what ails it, a message may: after \"penstock "
        "stop\" root can list the queue (penqueue -p), read (pencat), hold or delete messages "
        "(pensuper) without it; penqueue --log reads the queue's files as they are",
        s.plan.label);
  }
  set_state(s, State::paced);
  s.start_timer = loop_.call_at(loop_.now() + pause, [this, &s] { sleep_or_start(s); });
}

void Supervisor::hand_out_log(int file) {
  ++log_round_;
  for (auto& s : services_) {
    for (auto& p : s->processes) {
      Fd copy(::fcntl(file, F_DUPFD_CLOEXEC, 0));
      if (!copy) {  // this round never ends; the next one may
        log::warning("cannot hand the log to {} pid {}: {}", s->plan.program, p->pid,
                     Error::from_errno(errno).message());
        continue;
      }
      p->log_sent.push_back(log_round_);
      p->status->write_with_fds(service::kLog, {&copy, 1});
    }
  }
  note_log_taken();
}

void Supervisor::note_log_taken() {
  unsigned taken = log_round_;
  for (const auto& s : services_) {
    for (const auto& p : s->processes) taken = std::min(taken, p->log_round);
  }
  if (taken == log_opened_) return;
  log_opened_ = taken;
  write_status();
}

void Supervisor::arm_wakeup(Service& s) {
  if (s.plan.wakeup.count() == 0) return;
  s.wakeup_timer = loop_.call_at(loop_.now() + s.plan.wakeup, [this, &s] {
    if (!s.plan.wakeup_if_used || s.used) {
      if (Process* p = s.current()) {
        p->status->write(service::kWakeup);
      } else if (s.state == State::asleep) {
        start(s);
      }
    }
    arm_wakeup(s);
  });
}

Task<void> Supervisor::stop() {
  stopping_ = true;
  for (auto& s : services_) {
    s->tasks = std::make_unique<async::Gate>(loop_);
    s->start_timer.reset();
    s->wakeup_timer.reset();
    if (s->processes.empty()) set_state(*s, State::stopped);
  }
  sockets_.close();
  // Services that others need while they finish go last.
  const auto asked_by_others = [](const Service& s) {
    return s.plan.program == "trivial-rewrite" || s.plan.program == "bounce";
  };
  const async::Until until{.deadline = loop_.now() + stop_drain_time_ + kGrace};
  co_await end_all([&](const Service& s) { return !asked_by_others(s); }, until);
  co_await end_all([](const Service&) { return true; }, until);
}

Task<void> Supervisor::end_all(std::function<bool(const Service&)> which, async::Until until) {
  const auto signal_all = [&](int signo) {
    std::size_t living = 0;
    for (auto& s : services_) {
      if (!which(*s)) continue;
      for (auto& p : s->processes) {
        ++living;
        p->draining = true;
        if (signo != 0) p->signal(signo);
      }
    }
    return living;
  };
  bool killed = false;
  for (std::size_t living = signal_all(SIGTERM); living != 0; living = signal_all(0)) {
    const auto waited = co_await changed_.wait(killed ? async::Until{} : until);
    if (waited || killed) continue;
    killed = true;
    signal_all(SIGKILL);
  }
}

Task<Result<void>> Supervisor::all_ready(async::Until until) {
  for (;;) {
    const auto missing = [](const auto& s) { return s->plan.at_once && s->state != State::serving; };
    const auto it = std::ranges::find_if(services_, missing);
    if (it == services_.end()) co_return Result<void>{};
    const std::string text =
        "service " + (*it)->plan.label + " is " + (*it)->state_word() + ((*it)->why.empty() ? "" : ": " + (*it)->why);
    // Services that give a reason again and again need an administrator, not time.
    const bool hopeless = std::ranges::all_of(
        services_, [&](const auto& s) { return !missing(s) || (s->state == State::paced && !s->why.empty()); });
    if (hopeless) co_return fail(async::WaitError::timed_out, text);
    if (auto r = co_await changed_.wait(until); !r) co_return fail(async::WaitError::timed_out, text);
  }
}

std::string Supervisor::summary() const {
  const auto serving = std::ranges::count_if(services_, [](const auto& s) { return s->state == State::serving; });
  const auto waiting = std::ranges::count_if(services_, [](const auto& s) { return s->state == State::paced; });
  std::string text = fmt::format("{} services, {} serving", services_.size(), serving);
  if (waiting != 0) text += fmt::format(", {} waiting to restart", waiting);
  const auto former = std::ranges::count_if(services_, [](const auto& s) { return s->former_settings; });
  if (former != 0) text += fmt::format(", {} with former settings", former);
  if (!skipped_.empty()) text += fmt::format(", {} not started", skipped_.size());
  return text;
}

std::string Supervisor::status_json() const {
  nlohmann::ordered_json out;
  out["version"] = version();
  out["master"] = ::getpid();
  out["started"] = unix_seconds(started_at_);
  out["stopping"] = stopping_;
  out["kept_by"] = keeper_.holder();
  out["log_opened"] = log_opened_;
  out["asked"] = asked_;
  // Those of exclusive programs end one after the other, and are not waited for.
  const bool changes =
      std::ranges::any_of(services_, [](const auto& s) { return s->state == State::replacing && !s->plan.exclusive; });
  out["reload"] = {{"number", reloads_}, {"under_way", changes}, {"refused", reload_refused_}};
  out["upgrade"] = {{"number", upgrade_.number}, {"under_way", upgrade_.under_way}, {"good", upgrade_.good},
                    {"became", upgrade_.became}, {"from", upgrade_.from},           {"to", upgrade_.to},
                    {"lines", upgrade_.lines}};
  auto& list = out["services"] = nlohmann::ordered_json::array();
  for (const auto& s : services_) {
    nlohmann::ordered_json one;
    one["service"] = s->plan.label;
    one["program"] = s->plan.program;
    one["state"] = s->state_word();
    one["restarts"] = s->restarts;
    if (const Process* p = s->current()) {
      one["pid"] = p->pid;
      one["version"] = p->version;
      if (!p->confined.empty()) one["confined"] = p->confined;
    }
    auto& old = one["draining"] = nlohmann::ordered_json::array();
    for (const auto& p : s->processes) {
      if (p->draining) old.push_back(p->pid);
    }
    if (s->former_settings) one["former_settings"] = true;
    if (!s->last_end.empty()) one["last_end"] = s->last_end;
    auto& at = one["listens"] = nlohmann::ordered_json::array();
    for (const auto& a : s->plan.sockets) at.push_back(a.text());
    list.push_back(std::move(one));
  }
  auto& missing = out["not_started"] = nlohmann::ordered_json::array();
  for (const service::Skipped& s : skipped_) missing.push_back({{"service", s.label}, {"why", s.why}});
  // Plain ASCII, whatever is in master.cf, because the text is shown on terminals.
  return out.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void Supervisor::reload_begins() {
  ++reloads_;
  reload_refused_.clear();
}

void Supervisor::reload_refused(std::string why) {
  reload_refused_ = std::move(why);
  write_status();
}

void Supervisor::answer() {
  ++asked_;
  write_status();
}

void Supervisor::write_status() {
  save_state();
  const std::string text = status_json();
  if (board_) {
    if (auto ok = service::write_board(board_.get(), text); !ok) log::warning("{}", ok.error().message());
  }
  if (status_path_.empty()) return;
  const std::string next = status_path_ + ".new";
  ::unlink(next.c_str());  // left by a killed master, or from before the directory was root's
  const Fd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const bool written = fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(next.c_str(), status_path_.c_str()) != 0) {
    log::warning("cannot write {}: {}", status_path_, Error::from_errno(errno).message());
  }
}

}  // namespace pen::master
