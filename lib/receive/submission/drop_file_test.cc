#include "lib/receive/submission/drop_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "lib/testing/scratch.h"

namespace pen::submission {
namespace {

using State = DropReader::State;

struct Fixture {
  testing::ScratchDir scratch;
  const std::string directory = scratch.path().string();
  const std::string content = "Subject: x\n\nhello\n" + std::string(1000, 'x') + "\n";
  int next = 0;

  Submission sample() const {
    Submission s;
    s.sender = "ada@example.org";
    s.recipients = {{.address = "bob@example.org", .original = {}, .orcpt = {}, .notify = 0}};
    return s;
  }
  std::function<std::string()> ids() {
    return [this] { return "4bGNsx3Ynxz" + std::to_string(++next); };
  }
  /// Writes a whole message; the process may end in the middle.
  void write(Before before = {}) {
    auto w = DropWriter::create(directory, sample(), ids(), std::move(before)).value();
    BOOST_REQUIRE(w->append(content.substr(0, 10)));
    BOOST_REQUIRE(w->append(content.substr(10)));
    BOOST_REQUIRE(w->finish());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : std::filesystem::directory_iterator(directory)) out.push_back(e.path().filename().string());
    return out;
  }
  std::string bytes(const std::string& name) const {
    std::ifstream in(scratch.file(name), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(scratch.file(name), std::ios::binary | std::ios::trunc) << text;
  }
  /// The content of a message that may be taken; nullopt: it may not be taken.
  std::optional<std::string> take(const std::string& name) const {
    auto r = DropReader::open(directory, name).value();
    if (r.state() != State::complete) return std::nullopt;
    std::string out;
    for (;;) {
      auto piece = r.read(700);
      if (!piece) return std::nullopt;
      if (piece->empty()) return out;
      out += *piece;
    }
  }
};

BOOST_FIXTURE_TEST_SUITE(drop_file, Fixture)

BOOST_AUTO_TEST_CASE(a_message_is_read_as_it_was_written) {
  write();
  BOOST_REQUIRE(names().size() == 1U);
  const std::string name = names().front();
  auto r = DropReader::open(directory, name).value();
  BOOST_TEST((r.state() == State::complete));
  BOOST_TEST(r.submission().sender == "ada@example.org");
  BOOST_TEST(r.submission().queue_id == name);
  BOOST_TEST(r.uid() == ::getuid());
  BOOST_TEST(r.content_size() == content.size());
  {
    const auto gone = std::move(r);
    BOOST_TEST((DropReader::open(directory, name).value().state() == State::being_written));
  }
  BOOST_TEST(take(name).value() == content);
}

BOOST_AUTO_TEST_CASE(an_empty_message_is_a_message) {
  auto w = DropWriter::create(directory, sample(), ids()).value();
  BOOST_REQUIRE(w->finish());
  BOOST_TEST(take(w->queue_id()).value() == "");
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_noticed) {
  write();
  const std::string name = names().front(), whole = bytes(name);
  BOOST_REQUIRE(take(name) == content);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    put(name, changed);
    BOOST_TEST(!take(name).has_value(), "byte " << at);
    BOOST_TEST((DropReader::open(directory, name).value().state() != State::abandoned));
  }
  put(name, whole);
  BOOST_TEST(take(name).value() == content);
}

BOOST_AUTO_TEST_CASE(every_truncation_and_anything_after_the_end_is_noticed) {
  write();
  const std::string name = names().front(), whole = bytes(name);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put(name, whole.substr(0, size));
    BOOST_TEST(!take(name).has_value(), size);
  }
  put(name, whole + "x");
  BOOST_TEST(!take(name).has_value());
  // A message under another name would be taken again under its own id.
  put(name, whole);
  std::filesystem::rename(scratch.file(name), scratch.file("4bGNsx3YnxzX"));
  BOOST_TEST(!take("4bGNsx3YnxzX").has_value());
}

BOOST_AUTO_TEST_CASE(a_writer_that_dies_at_any_step_leaves_all_or_nothing) {
  for (int step = 0; step <= static_cast<int>(Step::done); ++step) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      write([step](Step s) {
        if (static_cast<int>(s) == step) ::_exit(0);
      });
      ::_exit(1);
    }
    int status = 0;
    BOOST_REQUIRE(::waitpid(pid, &status, 0) == pid);
    BOOST_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const auto left = names();
    BOOST_TEST(left.size() == (step == static_cast<int>(Step::create) ? 0U : 1U));
    for (const auto& name : left) {
      // A marked message is complete and may be taken; once unlocked, it was promised and must be taken.
      auto r = DropReader::open(directory, name).value();
      const bool whole = step > static_cast<int>(Step::mark);
      BOOST_TEST((r.state() == (whole ? State::complete : State::abandoned)), step);
      BOOST_REQUIRE(r.remove());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_being_written_is_left_alone_and_an_unfinished_writer_cleans_up) {
  {
    auto w = DropWriter::create(directory, sample(), ids()).value();
    BOOST_TEST((DropReader::open(directory, w->queue_id()).value().state() == State::being_written));
    BOOST_REQUIRE(w->append(content));
    BOOST_TEST(names().size() == 1U);
  }
  BOOST_TEST(names().empty());
  BOOST_TEST((DropReader::open(directory, "4bGNsx3Ynxz1").value().state() == State::gone));
}

BOOST_AUTO_TEST_CASE(a_file_taken_for_abandoned_before_it_was_locked_is_written_anew) {
  bool once = true;
  auto w = DropWriter::create(directory, sample(), ids(), [&](Step s) {
             if (s != Step::lock || !std::exchange(once, false)) return;
             auto r = DropReader::open(directory, "4bGNsx3Ynxz1").value();
             BOOST_TEST((r.state() == State::abandoned));
             BOOST_REQUIRE(r.remove());
           }).value();
  BOOST_TEST(w->queue_id() == "4bGNsx3Ynxz2");
  BOOST_REQUIRE(w->append(content));
  BOOST_REQUIRE(w->finish());
  BOOST_TEST(take("4bGNsx3Ynxz2").value() == content);
}

BOOST_AUTO_TEST_CASE(it_is_written_anew_under_its_id_where_the_client_has_that_already) {
  bool once = true;
  const auto one = [] { return std::string("4bGNsx3Ynxz1"); };
  auto w = DropWriter::create(directory, sample(), one, [&](Step s) {
             if (s == Step::lock && std::exchange(once, false))
               BOOST_REQUIRE(DropReader::open(directory, "4bGNsx3Ynxz1").value().remove());
           }).value();
  BOOST_REQUIRE(w->append(content));
  BOOST_REQUIRE(w->finish());
  BOOST_TEST(take("4bGNsx3Ynxz1").value() == content);
  BOOST_TEST(DropWriter::create(directory, sample(), one).error().is_errno(EEXIST));
}

BOOST_AUTO_TEST_CASE(an_id_that_is_taken_is_not_written_over) {
  write();
  next = 0;
  write();
  BOOST_TEST(names().size() == 2U);
  BOOST_TEST(take("4bGNsx3Ynxz1").value() == content);
  BOOST_TEST(take("4bGNsx3Ynxz2").value() == content);
}

BOOST_AUTO_TEST_CASE(a_whole_file_of_another_version_is_told_from_a_damaged_one) {
  const std::string name = "4bGNsx3Ynxz1";
  // A Submission with one unknown field more, and then one with a field that is not permitted.
  for (const std::string& more : {std::string(9, '\1'), std::string(1, '\7')}) {
    const Submission s = [&] {
      Submission given = sample();
      given.queue_id = name;
      return given;
    }();
    const std::string envelope = encode(s) + more;
    std::string whole = head(s).substr(0, kPrefixSize - 4);
    whole += static_cast<char>(envelope.size());
    whole += std::string(3, '\0') + envelope + content;
    Sum sum;
    sum.add(whole);
    whole += trailer(content.size(), sum);
    put(name, whole);
    BOOST_REQUIRE(::chmod(scratch.file(name).c_str(), 0744) == 0);
    BOOST_TEST((DropReader::open(directory, name).value().state() == State::foreign));
    whole[whole.size() - 100] = 'y';
    put(name, whole);
    const auto damaged = DropReader::open(directory, name).value();
    BOOST_TEST((damaged.state() == State::damaged));
    BOOST_TEST(damaged.why().find("checksum") != std::string::npos);
  }
  std::filesystem::remove(scratch.file(name));
  write();
  std::string newer = bytes(name);
  newer[8] = 2;
  put(name, newer);
  BOOST_TEST((DropReader::open(directory, name).value().state() == State::foreign));
}

BOOST_AUTO_TEST_CASE(links_directories_and_pipes_are_no_messages) {
  write();
  const std::string name = names().front();
  std::filesystem::create_symlink(scratch.file(name), scratch.file("link"));
  std::filesystem::create_directory(scratch.file("dir"));
  BOOST_REQUIRE(::mkfifo(scratch.file("fifo").c_str(), 0744) == 0);
  for (const char* other : {"link", "dir", "fifo"}) {
    const auto r = DropReader::open(directory, other).value();
    BOOST_TEST((r.state() == State::damaged), other);
    BOOST_TEST(r.why() == "not a regular file");
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace pen::submission
