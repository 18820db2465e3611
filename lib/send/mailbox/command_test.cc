#include "lib/send/mailbox/command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lib/send/mailbox/child.h"
#include "lib/send/mailbox/start_directory.h"
#include "lib/testing/scratch.h"

using namespace pen;
using namespace pen::mailbox;
using Words = std::vector<std::string>;
namespace fs = std::filesystem;

namespace {
struct Place {
  Place() {
    if (::geteuid() == 0) {
      work.become = Identity{65534, 65534, {65534}};
      BOOST_REQUIRE(::chown(scratch.path().c_str(), 65534, 65534) == 0);
    }
    work.command.emplace();
    work.command->directory = scratch.path();
    work.command->environment = {"PATH=/usr/bin:/bin"};
    work.message.sender = "a@b";
    work.message.fields = "Return-Path: <a@b>\n";
  }
  mail::DeliveryStatus run(std::string line, std::string_view content = kMail, seconds limit = seconds(60)) {
    work.command->line = std::move(line);
    return deliver_in_child(work, ipc::Content::in_memory(std::string(content)), limit).status;
  }
  std::string text(const std::string& name) {
    std::ifstream in(scratch.file(name), std::ios::binary);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  ipc::Content spool(const std::string& content, std::size_t size) {
    const auto path = scratch.write("spool", content);
    return ipc::Content::in_file(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 0, size);
  }
  static constexpr std::string_view kMail = "Subject: x\r\n\r\n.hello\r\nFrom y\r\n";
  testing::ScratchDir scratch;
  Work work;
};

bool runs(const std::string& pid) {
  std::ifstream in("/proc/" + pid + "/stat");
  std::string line;
  if (!std::getline(in, line)) return false;
  const auto state = line.substr(line.rfind(')') + 2, 1);
  return state != "Z" && state != "X";
}
std::string form(const PipeRules& rules, std::string_view content, std::size_t step) {
  PipeForm f(rules);
  std::string out;
  f.head("H: 1\n", out);
  for (std::size_t i = 0; i < content.size(); i += step) f.feed(content.substr(i, step), out);
  f.finish(out);
  return out;
}
Command prog() {
  Command c;
  c.line = "prog";
  return c;
}
}  // namespace

BOOST_FIXTURE_TEST_SUITE(mailbox_command, Place)

BOOST_AUTO_TEST_CASE(plain_words_need_no_shell_and_anything_else_gets_one) {
  Command c;
  c.line = "/usr/bin/prog -a  b@c.d\tx";
  BOOST_TEST((command_words(c) == Words{"/usr/bin/prog", "-a", "b@c.d", "x"}));
  c.line = "prog \"a b\"";
  BOOST_TEST((command_words(c) == Words{"/bin/sh", "-c", "prog \"a b\""}));
  c.shell = "/bin/restricted -c";
  BOOST_TEST((command_words(c) == Words{"/bin/restricted", "-c", "prog \"a b\""}));
  Command words;
  words.argv = {"prog", "a b;c"};
  BOOST_TEST((command_words(words) == words.argv));
}

BOOST_AUTO_TEST_CASE(commands_begin_in_the_queue_directory_where_every_account_may_enter_it) {
  const std::string top = scratch.file("top"), queue = top + "/queue";
  fs::create_directories(queue);
  const auto open = [](const std::string& path, bool all) {
    fs::permissions(path, all ? fs::perms(0755) : ::geteuid() == 0 ? fs::perms(0750) : fs::perms(0600));
  };
  fs::permissions(scratch.path(), fs::perms(0755));
  open(top, true);
  open(queue, true);
  BOOST_TEST(start_directory(queue) == queue);
  open(queue, false);
  BOOST_TEST(start_directory(queue) == "/");
  open(queue, true);
  open(top, false);
  BOOST_TEST(start_directory(queue) == "/");
  open(top, true);
  BOOST_TEST(start_directory(queue + "/none") == "/");
  BOOST_TEST(start_directory("queue") == "/");
}

BOOST_AUTO_TEST_CASE(exit_statuses_mean_what_sysexits_says) {
  const auto with = [](int code, std::string_view output = "") { return command_status(prog(), code << 8, output); };
  BOOST_TEST(with(0).text == "delivered to command: prog");
  BOOST_TEST(with(67).dsn == "5.1.1");
  BOOST_TEST((with(67).action == mail::Action::failed));
  BOOST_TEST((with(75).action == mail::Action::deferred));
  BOOST_TEST(with(75, "disk\n full\n").text == "temporary failure. Command output: disk full");
  BOOST_TEST(with(75, "disk\n full\n").diagnostic == "x-unix; disk full");
  BOOST_TEST(with(1).text == "Command died with status 1: \"prog\"");
  BOOST_TEST((with(1).action == mail::Action::failed));
  BOOST_TEST((command_status(prog(), 9, "").action == mail::Action::deferred));
}

BOOST_AUTO_TEST_CASE(what_a_successful_command_writes_is_told_where_it_is_asked_for) {
  BOOST_TEST(command_status(prog(), 0, "filed\n").text == "delivered to command: prog");
  Command c = prog();
  c.delivered = "delivered via robot service";
  BOOST_TEST(command_status(c, 0, "").text == "delivered via robot service");
  BOOST_TEST(command_status(c, 0, "4.7.1 filed\nas spam\n").text ==
             "delivered via robot service (4.7.1 filed as spam)");
  BOOST_TEST(command_status(c, 0, std::string(5000, 'x')).text.size() < 150);
  BOOST_TEST((command_status(c, 0, "4.7.1 filed").action == mail::Action::delivered));
}

BOOST_AUTO_TEST_CASE(a_command_may_state_its_own_status) {
  const auto s = command_status(prog(), 1 << 8, "4.7.1 come back later");
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(s.dsn == "4.7.1");
  BOOST_TEST(s.text == "come back later");
  BOOST_TEST(command_status(prog(), 75 << 8, "5.1.1 gone").dsn == "5.1.1");
  for (const auto* text : {"2.0.0 fine", "4.7 x", "4.7.1x", "47.1.1 x", "4..1 x"})
    BOOST_TEST(command_status(prog(), 1 << 8, text).dsn == "5.3.0", text);
}

BOOST_AUTO_TEST_CASE(the_form_of_the_content_does_not_depend_on_how_it_is_cut) {
  const std::string content = "a\r\n.b\r\n..\r\nFrom c\r\n\r\n.";
  for (std::size_t step = 1; step < 9; ++step) {
    BOOST_TEST(form({}, content, step) == "H: 1\na\n.b\n..\nFrom c\n\n.");
    BOOST_TEST(form({.quote_from = true}, content, step) == "H: 1\na\n.b\n..\n>From c\n\n.\n");
    BOOST_TEST(form({.double_dots = true}, content, step) == "H: 1\na\n..b\n...\nFrom c\n\n..");
    BOOST_TEST(form({.empty_line_at_end = true}, content, step) == "H: 1\na\n.b\n..\nFrom c\n\n.\n\n");
    BOOST_TEST(form({.quote_from = true, .double_dots = true, .empty_line_at_end = true, .eol = "\r\n"}, content,
                    step) == "H: 1\r\na\r\n..b\r\n...\r\n>From c\r\n\r\n..\r\n\r\n");
  }
}

BOOST_AUTO_TEST_CASE(a_command_gets_the_message_as_its_user) {
  work.command->from_line = true;
  BOOST_TEST(run("cat > got; id -u > who; umask > mask").text ==
             "delivered to command: cat > got; id -u > who; umask > mask");
  const auto got = text("got");
  BOOST_TEST(got.starts_with("From a@b  "));
  BOOST_TEST(got.ends_with("\nReturn-Path: <a@b>\nSubject: x\n\n.hello\nFrom y\n"));
  if (work.become) BOOST_TEST(text("who") == "65534\n");
  BOOST_TEST(text("mask") == "0077\n");
}

BOOST_AUTO_TEST_CASE(a_command_gets_the_environment_given_and_no_descriptor_but_three) {
  work.command->environment.push_back("LOCAL=a b");
  ::setenv("PEN_SECRET", "1", 1);
  run("echo /proc/self/fd/* > fds; env > env");
  ::unsetenv("PEN_SECRET");
  BOOST_TEST(text("env").find("LOCAL=a b\n") != std::string::npos);
  BOOST_TEST(text("env").find("PEN_SECRET") == std::string::npos);
  // The shell's own descriptors for the directory and the redirection come and go; there are no others.
  std::istringstream fds(text("fds"));
  std::string fd;
  std::size_t count = 0;
  while (fds >> fd) ++count;
  BOOST_TEST(count <= 5U);
}

BOOST_AUTO_TEST_CASE(a_failure_comes_with_what_the_command_wrote) {
  const auto s = run("echo no such box; exit 67");
  BOOST_TEST((s.action == mail::Action::failed));
  BOOST_TEST(s.text == "user unknown. Command output: no such box");
  const auto flood = run("yes | head -c 1000000; exit 75");
  BOOST_TEST((flood.action == mail::Action::deferred));
  BOOST_TEST(flood.text.size() < 2000U);
}

BOOST_AUTO_TEST_CASE(a_command_that_cannot_begin_is_tried_again_later) {
  for (const auto* line : {"/no/such/command", "/etc/passwd"})
    BOOST_TEST((run(line).action == mail::Action::deferred), line);
  work.command->directory = scratch.file("gone");
  BOOST_TEST(run("true").text.find("cannot begin in the directory") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(words_that_only_a_shell_knows_are_for_the_shell) { BOOST_TEST(run("exit 67").dsn == "5.1.1"); }

BOOST_AUTO_TEST_CASE(a_command_need_not_read) { BOOST_TEST(run("true", std::string(3'000'000, 'x')).dsn == "2.0.0"); }

BOOST_AUTO_TEST_CASE(a_command_that_talks_while_it_reads_does_not_block) {
  BOOST_TEST(run("cat", std::string(3'000'000, 'x')).dsn == "2.0.0");
}

BOOST_AUTO_TEST_CASE(at_the_time_limit_a_command_is_killed_with_all_it_began) {
  const auto s = run("sleep 1000 & echo $! > pid; wait", kMail, seconds(5));
  BOOST_TEST((s.action == mail::Action::failed));
  BOOST_TEST(s.dsn == "5.3.0");
  BOOST_TEST(s.text.starts_with("Command time limit exceeded: \"sleep 1000"));
  std::string pid = text("pid");
  BOOST_REQUIRE(!pid.empty());
  pid.pop_back();
  while (runs(pid)) std::this_thread::yield();  // the signal was sent, but the process may take a moment to die
}

BOOST_AUTO_TEST_CASE(what_stays_behind_is_not_waited_for_and_sees_no_later_message) {
  BOOST_REQUIRE(run("mkfifo gate; exec 3<&0; (cat <&3 > first; cat gate; cat <&3 >> first; "
                    "echo end >> first) & cat > /dev/null",
                    "Subject: first\r\n\r\n")
                    .dsn == "2.0.0");
  BOOST_TEST(run("cat > second", "Subject: second\r\n\r\n").dsn == "2.0.0");
  BOOST_TEST(text("second").find("Subject: second") != std::string::npos);
  {
    std::ofstream open_the_gate(scratch.file("gate"));
  }
  while (!text("first").ends_with("end\n")) std::this_thread::yield();
  BOOST_TEST(text("first").find("second") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_command_never_sees_the_end_of_a_message_that_is_not_whole) {
  work.command->line = "cat > small; echo end >> small";
  auto s = deliver_in_child(work, spool("Subject: x\r\n\r\n", 500), seconds(60)).status;
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(!fs::exists(scratch.file("small")));
  work.command->line = "cat > big; echo end >> big";
  s = deliver_in_child(work, spool(std::string(2'000'000, 'x'), 3'000'000), seconds(60)).status;
  BOOST_TEST((s.action == mail::Action::deferred));
  BOOST_TEST(text("big").find("end") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_large_message_comes_through_whole) {
  std::string content;
  for (int i = 0; i < 200'000; ++i) content += "0123456789abcdef\r\n";
  work.command->line = "cat > big";
  BOOST_TEST(deliver_in_child(work, spool(content, content.size()), seconds(60)).status.dsn == "2.0.0");
  std::erase(content, '\r');
  BOOST_TEST((text("big") == "Return-Path: <a@b>\n" + content));
}

BOOST_AUTO_TEST_CASE(a_command_ends_with_the_conversation_that_it_is_for) {
  for (const std::size_t size : {std::size_t{10}, 3 * kWholeContent}) {
    const auto ending = delivery::Ending::make();
    BOOST_REQUIRE(ending);
    BOOST_REQUIRE(::mkfifo(scratch.file("begun").c_str(), 0666) == 0);
    BOOST_REQUIRE(::chmod(scratch.file("begun").c_str(), 0666) == 0);
    work.command->line = "sleep 1000 & echo $! > pid; echo > begun; wait";
    mail::DeliveryStatus status;
    std::thread delivery([&] {
      status = deliver_in_child(work, spool(std::string(size, 'x'), size), seconds(900), ending->get()).status;
    });
    std::ifstream(scratch.file("begun")).get();
    (*ending)->come();
    delivery.join();
    BOOST_TEST((status.action == mail::Action::deferred));
    std::string pid = text("pid");
    BOOST_REQUIRE(!pid.empty());
    pid.pop_back();
    while (runs(pid)) std::this_thread::yield();
    fs::remove(scratch.file("begun"));
  }
}

BOOST_AUTO_TEST_CASE(no_command_runs_as_root) {
  if (::geteuid() != 0) return;
  work.become = Identity{0, 0, {}};
  BOOST_TEST((run("touch made").action == mail::Action::deferred));
  BOOST_TEST(!fs::exists(scratch.file("made")));
}

BOOST_AUTO_TEST_SUITE_END()
