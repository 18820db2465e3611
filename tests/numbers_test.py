"""scripts/numbers finds the functions of a class, private ones and those with a body too, and nothing else."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

PATH = str(pathlib.Path(__file__).parent.parent / "scripts/numbers")
loader = importlib.machinery.SourceFileLoader("numbers_script", PATH)
numbers = importlib.util.module_from_spec(importlib.util.spec_from_loader("numbers_script", loader))
loader.exec_module(numbers)

TEXT = """
class Forward;
class One final : public Other {
 public:
  One(int a, std::function<void(int)> f);
  ~One();
  int size() const { return f(size_); }
  Task<void> wait(Until until = {}) override;
  struct Part {
    void not_counted();
  };

 private:
  static bool is(char c) noexcept;
  virtual void pure() = 0;
  std::function<void(int)> callback_;
  int size_ = 0;
};
struct Two {
  int x = 0;
};
"""


class Numbers(unittest.TestCase):
    def test_functions_of_a_class_are_counted(self):
        found = {name: count for count, name, _ in numbers.classes("a.h", TEXT)}
        self.assertEqual(found, {"One": 6, "Two": 0})

    def test_the_length_of_a_function_is_that_of_its_lines(self):
        text = "namespace a {\nint f(int b) {\n  if (b) {\n    g();\n  }\n}\n}\n"
        self.assertEqual(list(numbers.functions("a.cc", text)), [(5, "a.cc:2")])


if __name__ == "__main__":
    unittest.main()
