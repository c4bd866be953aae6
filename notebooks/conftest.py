import os

os.environ["PYTHONHASHSEED"] = "0"  # the kernels that nbval starts read it
