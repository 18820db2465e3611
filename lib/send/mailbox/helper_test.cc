// A client in the place of a program that was taken over: what it asks the process that is root for.
#include "lib/send/mailbox/helper.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>

#include "lib/send/mailbox/descriptors.h"
#include "lib/send/mailbox/worker.h"
#include "lib/suite/service/table_request.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mailbox;

namespace {

using Kind = Request::Kind;

struct Client {
  explicit Client(Policy::Service service) {
    policy.service = service;
    policy.name = "tested";
    policy.kept_uids = {5000};
    policy.kept_gids = {5000};
    policy.round = {.base = scratch.path().string(), .lowest = 1000, .kept_uids = {5000}, .kept_gids = {5000}};
    policy.account = {.uid = 65534, .gid = 65534, .groups = {65534}};
    policy.argv = {"/bin/true"};
    if (service == Policy::Service::connections) {
      policy.argv = {"/bin/sh", "-c", "echo here; read line; exit 3"};
      policy.environment = {"PATH=/usr/bin:/bin"};
      policy.at_once = 1;
      policy.limit = seconds(600);
    }
    policy.log_path = scratch.file("log");
    policy.log_tag = "penstock";
    auto pair = socket_pair(SOCK_SEQPACKET);
    BOOST_REQUIRE(pair);
    helper = ::fork();
    BOOST_REQUIRE(helper >= 0);
    if (helper == 0) {
      pair->ours.reset();
      nurse(pair->theirs.get(), {policy, open_table});
    }
    socket = std::move(pair->ours);
  }
  ~Client() {
    socket.reset();
    ::waitpid(helper, nullptr, 0);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// The control socket of a new process that has been sent these bytes.
  Fd process(std::string_view request, int descriptor = -1) {
    auto control = socket_pair(SOCK_SEQPACKET);
    BOOST_REQUIRE(control);
    BOOST_REQUIRE(send_descriptor(socket.get(), "worker", control->theirs.get(), Full::wait));
    if (descriptor < 0)
      BOOST_REQUIRE(send_message(control->ours.get(), request));
    else
      BOOST_REQUIRE(send_descriptor(control->ours.get(), request, descriptor, Full::wait));
    return std::move(control->ours);
  }
  /// The answer to one job; nullopt: the process ended without one.
  std::optional<Answer> job(const Fd& control, const Work& work, std::string_view content = "Subject: x\r\n\r\nx\r\n") {
    auto pair = socket_pair(SOCK_STREAM);
    BOOST_REQUIRE(pair);
    if (!send_descriptor(control.get(), kAlone, pair->theirs.get(), Full::wait)) return std::nullopt;
    pair->theirs.reset();
    Work sent = work;
    sent.message.size = content.size();
    const std::string bytes = with_length(encode(Job{seconds(60), sent})) + std::string(content);
    if (::send(pair->ours.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return std::nullopt;
    std::string got;
    char buffer[4096];
    for (ssize_t n = 0; (n = ::recv(pair->ours.get(), buffer, sizeof buffer, 0)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    if (got.size() < kLengthBytes) return std::nullopt;
    return decode<Answer>(std::string_view(got).substr(kLengthBytes));
  }
  /// Waits until the process at the other end has ended.
  static bool ends(const Fd& control) {
    pollfd end{control.get(), 0, 0};
    return ::poll(&end, 1, 60'000) == 1 && (end.revents & POLLHUP) != 0;
  }
  /// The log, once the helper has ended: everything that was reported before is in it.
  std::string log() {
    std::ifstream in(policy.log_path);
    std::stringstream out;
    out << in.rdbuf();
    return out.str();
  }
  std::string log_with(const std::string& text) {
    for (int i = 0; i < 12'000; ++i) {
      std::string all = log();
      if (all.contains(text)) return all;
      ::poll(nullptr, 0, 5);
    }
    return "";
  }

  testing::ScratchDir scratch;
  // A table that only root may read, as the helper finds out from the configuration.
  const std::string table = scratch.file("table");
  const OpenTable open_table = [this](const std::string& path) -> Result<Fd> {
    if (path != table) return fail_errno("no setting names it", EPERM);
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return fail_errno(path);
    return fd;
  };
  Policy policy;
  pid_t helper = -1;
  Fd socket;
};

/// A connection that was asked to be served.
struct Served {
  explicit Served(Client& client) {
    auto pair = socket_pair(SOCK_STREAM);
    BOOST_REQUIRE(pair);
    control = client.process(encode_request({Kind::connection, 0, 0, ""}), pair->theirs.get());
    ours = std::move(pair->ours);
  }
  bool runs() const {
    char text[5];
    return ::recv(ours.get(), text, sizeof text, MSG_WAITALL) == sizeof text && std::string_view(text, 5) == "here\n";
  }
  Fd ours, control;
};

/// Bytes that we sent and the helper has not taken, once it waits for something.
int left_when_it_waits(const Client& client) {
  for (;;) {
    std::ifstream in("/proc/" + std::to_string(client.helper) + "/stat");
    std::stringstream text;
    text << in.rdbuf();
    if (text.str().contains(") S ")) break;
    ::poll(nullptr, 0, 1);
  }
  int left = -1;
  BOOST_REQUIRE(::ioctl(client.socket.get(), SIOCOUTQ, &left) == 0);
  return left;
}

auto only_root() {
  return boost::unit_test::precondition(
      [](boost::unit_test::test_unit_id) { return boost::test_tools::assertion_result(::geteuid() == 0); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(helper, *only_root())

BOOST_AUTO_TEST_CASE(who_asks_for_root_or_a_mail_account_gets_no_process_and_a_line_in_the_log) {
  Client client(Policy::Service::mailboxes);
  for (const auto& [request, why] : std::vector<std::pair<std::string, std::string>>{
           {encode_request({Kind::worker, 0, 1000, ""}), "nothing is done as root"},
           {encode_request({Kind::worker, 1000, 0, ""}), "nothing is done as root"},
           {encode_request({Kind::worker, 5000, 1000, ""}), "uid 5000 is an account of the mail system"},
           {encode_request({Kind::worker, 1000, 5000, ""}), "gid 5000 is a group of the mail system"},
           {encode_request({Kind::worker, 999, 1000, ""}), "below virtual_minimum_uid"},
           {encode_request({Kind::worker, 1000, 1000, "root"}), "no names of accounts"},
           {"anything", "a request: it is malformed"},
           {std::string(100'000, 'x'), "malformed"}}) {
    BOOST_TEST(Client::ends(client.process(request)), why);
    BOOST_TEST(client.log_with(why).contains("penstock/become["), why);
  }
  // The helper goes on.
  BOOST_TEST(client.job(client.process(encode_request({Kind::worker, 1000, 1000, ""})), {}).has_value());
}

BOOST_AUTO_TEST_CASE(who_asks_too_often_fills_no_log) {
  Client client(Policy::Service::users);
  for (unsigned i = 0; i < 3 * kMostRefusals; ++i)
    BOOST_TEST(Client::ends(client.process(encode_request({Kind::worker, 0, 0, "root"}))));
  // Reports are read before the next request.
  BOOST_TEST(client.job(client.process(encode_request({Kind::worker, 65534, 65534, "nobody"})), {}).has_value());
  const std::string log = client.log();
  BOOST_TEST(std::ranges::count(log, '\n') == kMostRefusals);
}

BOOST_AUTO_TEST_CASE(a_worker_runs_no_other_command_than_the_one_of_master_cf) {
  Client client(Policy::Service::command);
  const Fd control = client.process(encode_request({}));
  Work work;
  work.command.emplace();
  work.command->argv = {"/bin/true"};
  work.command->directory = "";
  BOOST_REQUIRE(!objection(client.policy, work));
  work.command->argv = {"/bin/sh", "-c", "touch " + client.scratch.file("made")};
  const auto answer = client.job(control, work);
  BOOST_REQUIRE(answer);
  BOOST_TEST(answer->status.dsn == "4.3.5");
  BOOST_TEST(answer->status.text.contains("not the command of this service"));
  BOOST_TEST(!std::filesystem::exists(client.scratch.file("made")));
  BOOST_TEST(client.log_with("a job for uid 65534").contains("not the command of this service"));
}

BOOST_AUTO_TEST_CASE(a_service_of_connections_runs_its_command_for_a_connection_and_nothing_else) {
  Client client(Policy::Service::connections);
  for (const auto& [request, why] : std::vector<std::pair<Request, std::string>>{
           {{Kind::worker, 0, 0, ""}, "a command for connections, and nothing else"},
           {{Kind::worker, 1000, 1000, ""}, "nothing else"},
           {{Kind::postman, 0, 0, ""}, "no postmen"},
           {{Kind::connection, 1000, 1000, ""}, "the account of this service's command stands in master.cf"},
           {{Kind::connection, 0, 0, "root"}, "stands in master.cf"},
           {{Kind::connection, 0, 0, ""}, "a command: no connection came with the request"}}) {
    BOOST_TEST(Client::ends(client.process(encode_request(request))), why);
    BOOST_TEST(client.log_with(why).contains("service tested: refused: "), why);
  }
  // What else a program could have to give away.
  const Fd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), file(::open("/", O_RDONLY | O_CLOEXEC)),
      datagrams(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un nameless{.sun_family = AF_UNIX, .sun_path = {}};
  BOOST_REQUIRE(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&nameless), sizeof(sa_family_t)) == 0);
  BOOST_REQUIRE(::listen(listening.get(), 1) == 0);
  const std::string refused = "a command: the descriptor is no connection";
  for (const Fd* given : {&listening, &file, &datagrams})
    BOOST_TEST(Client::ends(client.process(encode_request({Kind::connection, 0, 0, ""}), given->get())));
  // A report before a request is in the log when the request has an answer.
  BOOST_TEST(Client::ends(client.process("anything")));
  const std::string log = client.log_with("a request: it is malformed");
  std::size_t count = 0;
  for (auto at = log.find(refused); at != std::string::npos; at = log.find(refused, at + 1)) ++count;
  BOOST_TEST(count == 3U);

  const Served served(client);
  BOOST_TEST(served.runs());
  BOOST_REQUIRE(::send(served.ours.get(), "\n", 1, MSG_NOSIGNAL) == 1);
  const auto told = receive_descriptor(served.control.get());
  BOOST_REQUIRE(told);
  const auto end = parse_command_end(told->bytes);
  BOOST_REQUIRE(end);
  BOOST_TEST((end->kind == CommandEnd::Kind::exited));
  BOOST_TEST(end->code == 3);
}

BOOST_AUTO_TEST_CASE(other_services_have_no_command_for_connections) {
  for (const auto service : {Policy::Service::mailboxes, Policy::Service::command, Policy::Service::users}) {
    Client client(service);
    const auto pair = socket_pair(SOCK_STREAM);
    BOOST_REQUIRE(pair);
    BOOST_TEST(Client::ends(client.process(encode_request({Kind::connection, 0, 0, ""}), pair->theirs.get())));
    BOOST_TEST(client.log_with("no command for connections") != "");
  }
}

BOOST_AUTO_TEST_CASE(no_more_commands_run_at_once_than_master_cf_says) {
  Client client(Policy::Service::connections);
  std::vector<std::unique_ptr<Served>> served;
  for (std::size_t i = 0; i < client.policy.at_once + kAhead; ++i) {
    served.push_back(std::make_unique<Served>(client));
    BOOST_TEST(served.back()->runs());
  }
  BOOST_TEST(left_when_it_waits(client) == 0);
  const Served late(client);
  BOOST_TEST(left_when_it_waits(client) > 0);
  // One ends, and there is room.
  served.front().reset();
  BOOST_TEST(late.runs());
  BOOST_TEST(left_when_it_waits(client) == 0);
}

BOOST_AUTO_TEST_CASE(a_helper_that_makes_no_more_processes_ends_with_its_program) {
  Client client(Policy::Service::connections);
  std::vector<std::unique_ptr<Served>> served;
  for (std::size_t i = 0; i < client.policy.at_once + kAhead; ++i) {
    served.push_back(std::make_unique<Served>(client));
    BOOST_TEST(served.back()->runs());
  }
  client.socket.reset();
  int status = 0;
  BOOST_TEST(::waitpid(client.helper, &status, 0) == client.helper);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

BOOST_AUTO_TEST_CASE(an_account_whose_name_has_another_uid_is_nobodys_and_does_nothing) {
  Client client(Policy::Service::users);
  Work work;
  work.command.emplace();
  work.command->line = "touch " + client.scratch.file("made");
  const auto answer = client.job(client.process(encode_request({Kind::worker, 1234, 1234, "nobody"})), work);
  BOOST_REQUIRE(answer);
  BOOST_TEST(answer->status.text.contains("account nobody has not the uid 1234"));
  BOOST_TEST(!std::filesystem::exists(client.scratch.file("made")));
}

BOOST_AUTO_TEST_CASE(every_program_gets_its_tables_and_no_other_file) {
  for (const auto service : {Policy::Service::tables, Policy::Service::users, Policy::Service::connections}) {
    Client client(service);
    const auto lent = [&](const std::string& path) -> std::pair<int, std::string> {
      const Fd control = client.process(service::encode_table_request(path));
      const auto got = receive_descriptor(control.get());
      BOOST_REQUIRE(got);
      const int error = service::parse_table_answer(got->bytes).value_or(-1);
      char text[20];
      const ssize_t n = got->descriptor ? ::read(got->descriptor.get(), text, sizeof text) : 0;
      return {error, std::string(text, n > 0 ? static_cast<std::size_t>(n) : 0)};
    };
    BOOST_TEST((lent(client.table) == std::pair<int, std::string>(ENOENT, "")));
    client.scratch.write("table", "secret");
    BOOST_TEST((lent(client.table) == std::pair<int, std::string>(0, "secret")));
    BOOST_TEST((lent("/etc/shadow") == std::pair<int, std::string>(EPERM, "")));
    BOOST_TEST(client.log_with("table /etc/shadow: no setting names it") != "");
  }
}

BOOST_AUTO_TEST_CASE(who_may_ask_for_tables_alone_becomes_nobody) {
  Client client(Policy::Service::tables);
  for (const Request& request : {Request{Kind::worker, 1000, 1000, ""}, Request{Kind::worker, 65534, 65534, "nobody"},
                                 Request{Kind::postman, 0, 0, ""}})
    BOOST_TEST(Client::ends(client.process(encode_request(request))));
  BOOST_TEST(client.log_with("this program may ask for its tables, and nothing else") != "");
  const auto pair = socket_pair(SOCK_STREAM);
  BOOST_TEST(Client::ends(client.process(encode_request({Kind::connection, 0, 0, ""}), pair->theirs.get())));
  BOOST_TEST(client.log_with("no command for connections") != "");
}

BOOST_AUTO_TEST_CASE(who_may_ask_for_tables_alone_gets_few_processes_at_once) {
  Client client(Policy::Service::tables);
  // To open it takes as long as nobody writes.
  BOOST_REQUIRE(::mkfifo(client.table.c_str(), 0600) == 0);
  std::vector<Fd> controls;
  for (std::uint64_t i = 0; i < kTablesAtOnce; ++i)
    controls.push_back(client.process(service::encode_table_request(client.table)));
  BOOST_TEST(left_when_it_waits(client) == 0);
  controls.push_back(client.process(service::encode_table_request(client.table)));
  BOOST_TEST(left_when_it_waits(client) > 0);
  const Fd writer(::open(client.table.c_str(), O_WRONLY | O_CLOEXEC));
  for (const Fd& control : controls) {
    const auto got = receive_descriptor(control.get());
    BOOST_TEST((got && service::parse_table_answer(got->bytes) == 0 && got->descriptor));
  }
}

BOOST_AUTO_TEST_CASE(a_program_that_delivers_gets_no_more_processes_than_it_can_use) {
  Client client(Policy::Service::mailboxes);
  const auto processes = [&client] {
    const std::string pid = std::to_string(client.helper);
    std::ifstream in("/proc/" + pid + "/task/" + pid + "/children");
    std::uint64_t count = 0;
    for (std::string child; in >> child;) ++count;
    return count;
  };
  std::vector<Fd> controls;
  for (std::uint64_t i = 0; i < kProcessesAtOnce + 40; ++i) {
    auto control = socket_pair(SOCK_SEQPACKET);
    if (!control || !send_descriptor(client.socket.get(), "worker", control->theirs.get(), Full::fail)) break;
    controls.push_back(std::move(control->ours));
    if (i % 16 == 0) ::poll(nullptr, 0, 1);
    BOOST_REQUIRE(processes() <= kProcessesAtOnce);
  }
  controls.clear();  // those end, and there is room
  BOOST_TEST(client.job(client.process(encode_request({Kind::worker, 1000, 1000, ""})), {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_process_that_was_killed_costs_nobody_else_and_the_helper_ends_with_its_program) {
  Client client(Policy::Service::mailboxes);
  const Fd first = client.process(encode_request({Kind::worker, 1000, 1000, ""}));
  const Fd second = client.process(encode_request({Kind::worker, 1001, 1001, ""}));
  BOOST_TEST(client.job(first, {}).has_value());
  BOOST_TEST(client.job(second, {}).has_value());
  client.socket.reset();
  int status = 0;
  BOOST_TEST(::waitpid(client.helper, &status, 0) == client.helper);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  // A process that it made still does what it is given.
  BOOST_TEST(client.job(second, {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
